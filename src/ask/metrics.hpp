// What the engine counts. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "telemetry/counters.hpp"
#include "telemetry/exposition.hpp"
#include "telemetry/growing_table.hpp"
#include "telemetry/live.hpp"
#include "telemetry/metric_names.hpp"

namespace tidegate::ask {

// Why a cost that a request named was not taken.
enum class CostFault : std::uint8_t {
    untrusted,     // the peer is not trusted to state costs
    unreadable,    // no whole number, or several
    out_of_range,  // not between `min` and `max`
};

// The word of the label.
std::string_view to_string(CostFault fault);

// What one thread counts. A slot that is not there is not counted.
class Metrics {
  public:
    explicit Metrics(std::size_t names_max) : decisions_(names_max) {}

    // tidegate_decisions_total{policy,limit,outcome="admitted"|"denied"}, in shadow
    // "shadow_admitted"|"shadow_denied"
    void count_decision(std::size_t slot, bool denied) {
        if (slot >= decisions_.size()) return;
        DecisionCounts& counts = decisions_[slot];
        (denied ? counts.denied : counts.admitted).add();
    }
    // tidegate_cost_ignored_total{reason}: the route's default was taken
    void count_cost_ignored(CostFault reason) { costs_ignored_[reason].add(); }
    // tidegate_forwarding_invalid_total: a trusted peer's chain ended where it could not be read
    void count_forwarding_invalid() { forwarding_invalid_.add(); }
    // tidegate_forwarding_ignored_total: a peer that is not trusted sent X-Forwarded-For or
    // Forwarded
    void count_forwarding_ignored() { forwarding_ignored_.add(); }

    // For `limits` names; another thread than the one that counts may call it.
    void grow(std::size_t limits) { decisions_.grow(limits); }
    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                      const telemetry::NameList<telemetry::DecisionName>& limits);
    // tidegate_decisions_total for the dashboard, the limits of each policy summed up. `policies`
    // has the slots of all limits.
    static void add_to(telemetry::LiveTotals& totals, telemetry::Threads<Metrics> threads,
                       const telemetry::LivePolicies& policies);

  private:
    struct DecisionCounts {
        telemetry::Counter admitted;
        telemetry::Counter denied;
    };

    telemetry::GrowingTable<DecisionCounts> decisions_;
    telemetry::CounterBy<CostFault, CostFault::out_of_range> costs_ignored_;
    telemetry::Counter forwarding_invalid_;
    telemetry::Counter forwarding_ignored_;
};

}  // namespace tidegate::ask

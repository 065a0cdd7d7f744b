// What the engine counts. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/described_enum.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/live.hpp"
#include "telemetry/metric.hpp"

namespace tidegate::ask {

// Why a cost that a request named was not taken.
BOOST_DEFINE_FIXED_ENUM_CLASS(CostFault, std::uint8_t,
                              untrusted,     // the peer is not trusted to state costs
                              unreadable,    // no whole number, or several
                              out_of_range)  // not between `min` and `max`

// What a limit answered. A policy in shadow has outcomes of its own, and so has a soft one.
BOOST_DEFINE_FIXED_ENUM_CLASS(DecisionOutcome, std::uint8_t, admitted, denied, shadow_admitted,
                              shadow_denied, soft_admitted, soft_over)

// What one limit answered, of a policy in shadow or of another.
struct DecisionCounts {
    static constexpr telemetry::MetricType kType = telemetry::MetricType::counter;
    static std::vector<telemetry::MetricLabel> labels();

    telemetry::Counter admitted;
    telemetry::Counter denied;
};

// What becomes of a request: under the limits that are live, and in the world of a candidate.
BOOST_DEFINE_FIXED_ENUM_CLASS(RequestFate, std::uint8_t, admitted, denied)

// What would change if a candidate were live.
struct CandidateCounts {
    static constexpr telemetry::MetricType kType = telemetry::MetricType::counter;
    static std::vector<telemetry::MetricLabel> labels();

    telemetry::Counter& of(RequestFate live, RequestFate candidate) {
        return counts[static_cast<std::size_t>(live)][static_cast<std::size_t>(candidate)];
    }
    const telemetry::Counter& of(RequestFate live, RequestFate candidate) const {
        return counts[static_cast<std::size_t>(live)][static_cast<std::size_t>(candidate)];
    }

    std::array<std::array<telemetry::Counter, 2>, 2> counts;  // by RequestFate
};

// What a policy with a cost of its own has counted.
struct PolicyCosts {
    telemetry::Metric<telemetry::ByName<"policy">, "tidegate_usage_cost_total",
                      "Units that policies with a cost of their own have counted, once the request "
                      "has ended, and all policies of a reservation of the check API, once it is "
                      "settled; of money, millionths of a dollar">
        settled;
    telemetry::Metric<telemetry::ByName<"policy">, "tidegate_usage_reserved_total",
                      "Units that the same requests had reserved",
                      "A ratio to `tidegate_usage_cost_total` far above 1 says that requests "
                      "reserve much more than they take.">
        reserved;
};

// Dollars of policies that count money, by the model of the request.
struct PolicyDollars : telemetry::SparseTable<telemetry::Counter, telemetry::kModelSlotsMax> {
    static constexpr telemetry::MetricType kType = telemetry::MetricType::counter;
    static std::vector<telemetry::MetricLabel> labels();
};

// What one thread counts, but for the limits.
struct EngineCounters {
    // Counts each time the route's default was taken.
    telemetry::Metric<telemetry::By<"reason", CostFault>, "tidegate_cost_ignored_total",
                      "Costs that requests stated and Tidegate ignored, by reason">
        cost_ignored;
    telemetry::Metric<
        telemetry::Counter, "tidegate_forwarding_invalid_total",
        "Requests from trusted peers whose forwarding field could not be read to the client: they "
        "count as the last good address">
        forwarding_invalid;
    telemetry::Metric<
        telemetry::Counter, "tidegate_forwarding_ignored_total",
        "Requests with X-Forwarded-For or Forwarded from peers that are not trusted: they count as "
        "the peer's address">
        forwarding_ignored;
};

// What one thread counts. A slot that is not there is not counted.
class Metrics : public EngineCounters {
  public:
    explicit Metrics(std::size_t names_max)
        : decisions_(names_max), costs_(names_max), dollars_(names_max), candidates_(names_max) {}

    void count_decision(std::size_t slot, bool denied) {
        if (slot >= decisions_.size()) return;
        DecisionCounts& counts = decisions_[slot];
        (denied ? counts.denied : counts.admitted).add();
    }

    // A request has ended that reserved `reserved` units of a policy, and has cost `units`. `slot`
    // is that of a limit of the policy, always the same.
    void count_cost(std::size_t slot, std::int64_t units, std::int64_t reserved) {
        if (slot >= costs_.size()) return;
        costs_[slot].settled.add(static_cast<std::uint64_t>(units));
        costs_[slot].reserved.add(static_cast<std::uint64_t>(reserved));
    }
    // Of a policy that counts money, beside count_cost(). `model_slot` is MetricSlots::model().
    void count_money(std::size_t slot, std::size_t model_slot, std::int64_t millionths) {
        if (slot >= dollars_.size()) return;
        dollars_[slot].at(model_slot).add(static_cast<std::uint64_t>(millionths));
    }

    // `slot` is that of a limit of the candidate, always the same.
    void count_candidate(std::size_t slot, RequestFate live, RequestFate candidate) {
        if (slot < candidates_.size()) candidates_[slot].of(live, candidate).add();
    }

    // For `limits` names; another thread than the one that counts may call it.
    void grow(std::size_t limits) {
        decisions_.grow(limits);
        costs_.grow(limits);
        dollars_.grow(limits);
        candidates_.grow(limits);
    }
    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                      const telemetry::NameRegistry& names);
    // The decisions for the dashboard, the limits of each policy summed up. `policies` has the
    // slots of all limits.
    static void add_to(telemetry::LiveTotals& totals, telemetry::Threads<Metrics> threads,
                       const telemetry::LivePolicies& policies);

  private:
    telemetry::GrowingTable<
        telemetry::Metric<DecisionCounts, "tidegate_decisions_total", "What each limit answered">>
        decisions_;
    static void write_costs(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                            const telemetry::NameRegistry& names);

    // By the slot of a limit of the policy.
    telemetry::GrowingTable<PolicyCosts> costs_;
    telemetry::GrowingTable<
        telemetry::Metric<PolicyDollars, "tidegate_usage_usd_total",
                          "Dollars that policies with `unit: usd` have counted, once the request "
                          "has ended",
                          "Several such policies of a route count the same dollars each.">>
        dollars_;
    telemetry::GrowingTable<telemetry::Metric<
        CandidateCounts, "tidegate_candidate_total",
        "Requests that a policy with a candidate counts, by what became of them and by what would "
        "have, were the candidate live">>
        candidates_;  // of the candidate
};

}  // namespace tidegate::ask

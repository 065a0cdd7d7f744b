// Tells Redis, once it is back, what this worker admitted while it was away: with the sub-buckets
// in which that was taken, once, and not faster than Redis has room for beside the decisions.
//
// It makes Redis count what it could not see. Nothing hangs on it: what is lost on the way stays
// uncounted, and the bound of `local` holds without it. What is known not to have been sent is kept
// for the next time. One a worker, on its thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "limit/charge.hpp"
#include "redis/servers.hpp"
#include "store/local_ledger.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::store {

class LocalReport {
  public:
    struct Options {
        std::string key_prefix;
        bool local_clock = false;  // as for decisions
        LocalLedger::Options ledger;
        std::size_t at_once = 10;  // identifiers that are told of in one call of send()
    };

    // What is in flight when `servers` are stopped comes back here: they are stopped first.
    LocalReport(redis::Servers servers, Options options, telemetry::MetricsShard& metrics);

    // The in-process store has decided, or was given back something.
    void took(const limit::Charge& charge, const limit::Verdict& verdict);
    void gave_back(const limit::Refund& refund, limit::Micros now);

    // Their counts were reset: they are not told any more, but for what has left already.
    void forget(std::span<const limit::ChargeItem> items);

    // Sends what can be sent now. Call it about every 50 ms.
    void send(redis::SteadyTime now);

    bool empty() const { return ledger_.empty() && in_flight_.empty(); }

  private:
    class Command;

    bool is_reachable(const LocalTaken& taken) const;
    void send_one(LocalTaken taken);
    void keep(LocalTaken taken);
    void count(telemetry::LocalReportResult result, std::size_t times = 1);

    redis::Servers servers_;
    Options options_;
    telemetry::MetricsShard* metrics_;
    LocalLedger ledger_;
    std::vector<Command*> in_flight_;  // at most options_.at_once
    bool failed_ = false;              // something since the last send()
    redis::SteadyTime quiet_until_;
};

}  // namespace tidegate::store

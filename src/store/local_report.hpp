// Reports to Redis, once it is back, what this worker admitted while it was away: with the
// sub-buckets of time in which that was taken, once, and slowly enough to leave room for decisions.
//
// A report that is lost leaves Redis with less to count; the bound of `local` holds without it.
// What was not sent is kept for the next time. One a worker, on its thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "limit/charge.hpp"
#include "store/local_ledger.hpp"
#include "store/metrics.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

class LocalReport {
  public:
    struct Options {
        LocalLedger::Options ledger{};
        std::size_t at_once = 10;  // identifiers that one call of send() reports
    };

    // The servers are stopped before this is destroyed: what is in flight comes back here.
    LocalReport(RedisStore redis, const Options& options, Metrics& metrics);

    // The in-process store has decided, or was given back something.
    void took(const limit::Charge& charge, const limit::Verdict& verdict);
    void gave_back(const limit::Refund& refund, const limit::Now& now);

    // Their counts were reset: drops what was not sent yet.
    void forget(std::span<const limit::ChargeItem> items);

    // Sends what can be sent now. Call about every 50 ms.
    void send(SteadyTime now);

    bool empty() const { return ledger_.empty() && in_flight_.empty(); }

  private:
    class Command;

    bool is_reachable(const LocalTaken& taken) const;
    void send_one(LocalTaken taken);
    void keep(LocalTaken taken);
    void count(LocalReportResult result, std::size_t times = 1);

    RedisStore redis_;
    std::size_t at_once_;
    Metrics* metrics_;
    LocalLedger ledger_;
    std::vector<Command*> in_flight_;  // at most at_once_
    bool failed_ = false;              // something since the last send()
    SteadyTime quiet_until_;
};

}  // namespace tidegate::store

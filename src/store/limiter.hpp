// A worker's way to a verdict: the in-process store, or Redis with what stands in front of it and
// the failure policy behind it.
//
// In a cluster a request whose items lie in several slots asks each of them, all at once; where one
// does not admit, the others are given back what they took (see Joint).
//
// One Limiter a worker, one thread; what several share (the in-process store, the number of
// replicas) is made for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "limit/charge.hpp"
#include "net/wakeup.hpp"
#include "redis/servers.hpp"
#include "store/deny_cache.hpp"
#include "store/inspector.hpp"
#include "store/joint.hpp"
#include "store/local_report.hpp"
#include "store/memory_store.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::store {

using redis::SteadyTime;

class Spread;

// One question to the limiter and its answer. Reused from request to request.
struct Decision
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    enum class Result : std::uint8_t {
        pending,
        admitted,
        limited,
        unavailable,  // the store did not answer and a policy says deny
    };

    Decision();
    ~Decision();
    Decision(const Decision&) = delete;
    Decision& operator=(const Decision&) = delete;

    // Asked. All stays as it is until the result is there and, if it is `admitted`, until settle().
    std::vector<limit::ChargeItem> items;
    std::int64_t cost = 1;
    limit::Micros moment{0};  // for limits of schedule
    // Whether an admission leaves something to do: units to give back by status, a place in a line,
    // a slot to release (Limit::settles() of any limit).
    bool needs_settling = false;

    // Answered. `verdict` speaks of `decided()`: all items, or after a failure of the store those
    // that were decided without it.
    Result result = Result::pending;
    limit::Verdict verdict;
    telemetry::StoreKind decided_by = telemetry::StoreKind::memory;
    bool store_failed = false;  // decided by the failure policy
    bool remembered = false;    // denied without asking: by an earlier denial

    std::span<const limit::ChargeItem> decided() const {
        return store_failed ? std::span<const limit::ChargeItem>(decided_items_) : items;
    }

  private:
    friend class Limiter;
    friend class Spread;

    limit::Charge charge() const { return {decided(), cost, lease_, moment}; }
    limit::Charge charge_of(const Joint::Part& part) const {
        return {part.items, cost, lease_, moment};
    }

    Wakeup* sleeper_ = nullptr;
    SteadyTime asked_;      // not later than anything was sent
    limit::LeaseId lease_;  // for limits of concurrency
    SteadyTime renewed_;    // while it holds slots in Redis
    bool is_settled_ = true;
    std::vector<limit::ChargeItem> decided_items_;  // if the store failed
    bool is_spread_ = false;                        // over several slots of a cluster
    std::unique_ptr<Spread> spread_;                // once it was; kept for the next one
};

// How many proxies share the store; 0: not known. Written by the heartbeat.
using Replicas = std::atomic<int>;

class Limiter {
  public:
    struct RedisParts {
        redis::Servers servers;
        std::string key_prefix;
        bool local_clock = false;
        const Replicas* replicas = nullptr;  // for the local share
        DenyCache::Options deny_cache;
        LocalReport::Options local_report{};  // its prefix and clock are those above
    };

    // Counts in `memory` alone.
    Limiter(MemoryStore& memory, telemetry::MetricsShard& metrics);
    // Counts in Redis; `memory` is what `local` falls back to.
    Limiter(MemoryStore& memory, RedisParts redis, telemetry::MetricsShard& metrics);
    ~Limiter();

    // Decides, or begins to: then decision.result is `pending`, and `sleeper` is woken when it is
    // no longer, at the latest when Redis's deadline, counted from `now`, has passed. Both must
    // live until then. Questions about equal items in one turn of the loop travel as one, and so do
    // some about different ones under the same policies.
    void decide(Decision& decision, Wakeup& sleeper,
                SteadyTime now = std::chrono::steady_clock::now());

    // Whether a charge of decision.items would be denied now, as far as the store knows; takes
    // nothing. The result is `limited` with its verdict, else `admitted` without one: also when the
    // store fails, as this is asked only to save effort. Redis is asked about one unit: a request
    // of a higher cost may be let by here and denied by decide(), and its retry_after may be too
    // short. Requires items without schedules, not in shadow. `sleeper` as for decide(). There is
    // nothing to settle.
    void look(Decision& decision, Wakeup& sleeper,
              SteadyTime now = std::chrono::steady_clock::now());

    // The request has ended with an answer of `status` (0: none): what does not count with that
    // status is given back, and the slots of concurrency are given up once `hold` has passed.
    // Does not wait; the store keeps them meanwhile, nothing here does.
    void settle(Decision& decision, int status,
                std::chrono::milliseconds hold = std::chrono::milliseconds{0});

    // The client left while leaky_bucket had the request held: gives up its place if it is the last
    // in line. Before settle().
    void leave_line(Decision& decision);

    // Renews what requests hold in Redis, if it is time. Call about once a second.
    void renew_slots(SteadyTime now);

    // Tells Redis, if it is back, what was admitted without it. Call about every 50 ms.
    void report_local(SteadyTime now) { local_report_.send(now); }

    // Counts of these items were reset: no denial is remembered any more, and what was admitted of
    // them without Redis is not told to it.
    void forget(std::span<const limit::ChargeItem> items);
    // Nothing is remembered any more: the limits have changed.
    void forget_denials(const DenyCache::Options& bounds) {
        denials_.restart(bounds, std::chrono::steady_clock::now());
    }

  private:
    friend class Spread;
    class Batch;
    class Errand;
    // Where something was taken for a request that was admitted.
    struct Admission {
        limit::Charge charge;
        const limit::Receipt& receipt;
        bool in_redis;
        std::uint16_t slot;
    };
    // A command that waits for renew_slots().
    struct LateRelease {
        std::uint16_t slot;
        std::string command;
    };

    void looked(Decision& decision, const Counts& counts);
    void decide_in(Decision& decision, std::span<const limit::ChargeItem> items);
    void ask_redis(Decision& decision);
    bool may_mix(SteadyTime now) const;
    void mix_later();
    bool join_open_batch(Decision& decision, std::size_t hash);
    Batch* send_batch(Decision& decision, std::size_t hash);
    void decided_by_redis(Decision& decision);
    void fall_back(Decision& decision, telemetry::StoreFailure failure);
    void give_back_here(const limit::Refund& refund);
    void give_up_slots(const Admission& admission, limit::Micros hold);
    void release_late(const Decision& decision);
    void release_late(const limit::Charge& charge, std::uint16_t slot);
    void run_errand(std::string command, const redis::Script* script, std::uint16_t slot);
    void give_back_in_redis(const limit::Refund& refund, std::uint16_t slot);
    template <class Visit>
    void for_each_admission(const Decision& decision, Visit visit);
    int replicas() const { return redis_.replicas != nullptr ? redis_.replicas->load() : 0; }

    // Of Redis Cluster; limiter_cluster.cpp.
    std::uint16_t slot_of(std::span<const limit::ChargeItem> items) const;
    void ask_slots(Decision& decision);
    void on_slot(Decision& decision);
    void end_spread(Decision& decision);
    void decide_part_here(const Decision& decision, Joint::Part& part);
    void give_back_parts(Decision& decision);
    void give_back(const Decision& decision, Joint::Part& part, Joint::Back back);
    std::optional<limit::Micros> clock() const;

    using Holders = boost::intrusive::list<Decision, boost::intrusive::constant_time_size<false>>;

    MemoryStore* memory_;
    RedisParts redis_;  // no servers: in process
    telemetry::MetricsShard* metrics_;
    DenyCache denials_;
    LocalReport local_report_;
    std::optional<Inspector> inspector_;           // with Redis
    SteadyTime mixes_from_{};                      // not before are different questions joined
    std::size_t waiting_ = 0;                      // different questions of this turn
    std::vector<Batch*> open_;                     // of this turn, oldest first: have not left
    std::vector<std::unique_ptr<Batch>> batches_;  // all there are
    std::vector<Batch*> idle_;                     // of them
    std::vector<LateRelease> late_releases_;
    Holders holders_;  // of slots in Redis
    std::uint64_t lease_holder_;
    std::uint64_t last_lease_ = 0;
};

}  // namespace tidegate::store

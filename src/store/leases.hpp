// Leases of the units of hot keys: a thread takes a batch of units from Redis at once, and admits
// requests from it without asking. Only policies with `lease` have them. One for each worker, on
// its thread. LeaseTable is pure, and time is an argument; Leases sends its commands.
//
// The promise, while the clock of Redis does not jump forward and no machine is suspended, is that
// of the limit without leases, and not a unit more. These rules keep it:
// - Redis counts a whole batch before a unit of it is used, and no unit is both used and given
//   back, nor given back twice. A batch whose answer is lost stays counted until its window ends.
// - A unit is used in the sub-bucket that it is counted in. So a batch lasts as long as the answer
//   says is left of the sub-bucket, counted from the moment when the command was sent (Redis has
//   carried it out no earlier), less a thousandth, as clocks run at different speeds; and 1 s at
//   most. Where a policy has several limits, the first sub-bucket that ends counts.
// - What is left of a batch that has ended is given back to that sub-bucket of that state. A state
//   that began anew (a reset, FLUSHALL) has another generation, which refuses it.
// - A reset in this process ends the batches of its identifier, and a reload ends all, with those
//   whose command has left.
//
// The price is that units in batches are denied to others: together at most `slack` of the quota,
// and what give-backs that got lost hold until its window ends. So
// - a batch is at most slack x quota / threads, rounded down, of the limit for which that is least;
//   threads are the proxies that heartbeats count (`replicas`) times the threads of this process.
//   While their number is only assumed, a thread takes no batch: more proxies than that would hold
//   more than the slack together;
// - a thread has one batch of a key and a tier at a time, and asks for the next one when it cannot
//   serve a request from it; of two tiers, the batch of one is smaller by what the other holds;
// - a batch is for what the thread is asked for in an interval: a sub-bucket, or 1 s if that is
//   shorter. That is a mean of the intervals before, in which each weighs a quarter less than the
//   one after it, or more if this interval had more; and no less than kSmall. Where the last batch
//   was spent before its end, the next one is for the time until then, at the speed at which the
//   last one was spent, if that is more, and for eight times its units at most; where windows are
//   brief, at half of that speed, and for as many units at most. A batch is larger by half as much
//   again at most. A thread that met a key less than kMetMin times in each interval before, of
//   which a quarter is forgotten with each later one, takes none until it has met the key more than
//   kSmall times in this one, nor one that would get less than 2 units;
// - where windows last at most kBriefMax, units are not given back while half of each quota is
//   free: they expire soon by themselves, and that saves Redis a command for each sub-bucket. With
//   a batch like the last one, or of what an interval usually needs, they are at most what the
//   thread may hold, and it asks for as many less. So batches exceed there what is expected by the
//   spread of a chance number, or by twice what may stay unused of each sub-bucket. They are given
//   back after all at a reload, a reset and a stop, and where another key takes the key's place in
//   the table;
// - where the number of threads rises, a thread gives back what it keeps beyond its smaller part as
//   soon as it knows the number. A batch that it has goes on to its end;
// - where a batch does not fit any more, the thread asks for no other until the sub-bucket ends,
//   or for 1 s if that is shorter, and each request is charged by itself: the last units are exact;
// - a batch that comes after its end was in vain. Where the trip took half of a sub-bucket or more,
//   the next ones mostly would be, too: the thread asks for none for an interval, and twice as long
//   each further time in a row, up to 1 s.
//
// Requests of a key alone wait for the batch that is on its way, as long as it has units for them;
// where that comes after its end, they wait for the next one.
// One that is about other keys as well does not wait: the store is asked about it at once, and then
// for the batch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/timestamp.hpp"
#include "limit/charge.hpp"
#include "store/deny_cache.hpp"
#include "store/failure_policy.hpp"
#include "store/limit_decision.hpp"
#include "store/metrics.hpp"
#include "store/redis_store.hpp"
#include "store/refund.hpp"

namespace tidegate::store {

// How long a batch of `limit` may last that was charged at `at`, which the store told with `told`:
// what is left of the sub-bucket. Requires a limit that may be leased (can_be_leased()).
limit::Micros left_of_sub_bucket(const limit::Limit& limit, limit::Micros at,
                                 const limit::LimitVerdict& told);

// How many units of these limits, of the policy's slack, one of so many threads may hold.
std::int64_t most_leased(const limit::ChargeItem& item, std::int64_t threads);

// What a thread knows of one identifier under a policy with leases and one of its tiers, and its
// batch.
class Lease {
  public:
    // A batch that is, or was, there.
    using Number = std::uint64_t;

    const limit::ChargeItem& item() const { return item_; }
    Number batch() const { return batch_; }
    std::int64_t left() const { return left_; }
    // Whether it is of this item, whose policy belongs to this configuration.
    bool is_of(const limit::ChargeItem& item,
               const std::shared_ptr<const config::Config>& config) const;
    const limit::Receipt& receipt() const { return receipt_; }

    // Takes `cost` units of the batch. False: it has ended, or has not as many.
    bool spend(std::int64_t cost, SteadyTime now) {
        if (now >= ends_ || left_ < cost || left_ == 0) return false;
        left_ -= cost;
        return true;
    }
    // Appends what clients see of each limit: what the store said last, with what is left of the
    // batch, which this thread can still admit.
    void append_verdict(SteadyTime now, std::vector<limit::LimitVerdict>& out) const;

  private:
    friend class LeaseTable;

    limit::ChargeItem item_{nullptr, {}};  // its identifier is `identifier_`
    std::string identifier_;
    std::shared_ptr<const void> owner_;  // of the policy, while there is or may come a batch
    // Of the policy: one of a later configuration may have the same address.
    std::weak_ptr<const config::Config> config_;

    // How often it was met, and the units that it was met with.
    struct Met {
        std::int64_t times = 0;
        std::int64_t units = 0;
    };
    // What is left of it to expect after so many intervals without a meeting.
    static Met faded(Met met, std::int64_t intervals);
    // What to expect of the interval of that number.
    Met usual_at(std::int64_t interval) const;
    // Whether it is met so often then that it is worth a batch.
    bool is_hot(std::int64_t interval) const;

    std::chrono::nanoseconds interval_{0};
    std::int64_t interval_at_ = 0;  // its number
    Met now_;                       // in this interval
    Met usual_;                     // as those before let expect of it

    bool is_asked_ = false;    // the command of a batch is under way
    bool is_dropped_ = false;  // and what it brings is given back
    bool is_live_ = false;     // in LeaseTable::live_
    SteadyTime asked_at_{};
    std::int64_t asked_ = 0;
    std::int64_t promised_ = 0;  // of these, to requests that wait
    SteadyTime quiet_until_{};   // asks for no batch before
    int vain_ = 0;               // batches in a row that came too late

    // Units that are not given back and may still count.
    struct Kept {
        SteadyTime until;  // they have expired
        std::int64_t units;
        limit::Micros at;  // with the generation: the receipt of their batch
        std::uint64_t generation;
    };
    std::chrono::nanoseconds brief_span_{0};  // of the longest window; 0: all are given back
    std::vector<Kept> kept_;                  // at most kKeptMax; the oldest first
    bool is_keeping_ = false;                 // in LeaseTable::keeping_

    Number batch_ = 0;
    std::int64_t left_ = 0;
    SteadyTime ends_{};
    limit::Receipt receipt_;
    SteadyTime told_at_{};  // not later than the store said this:
    std::vector<limit::LimitVerdict> told_;
};

class LeaseTable {
  public:
    // Gives units back to the state that `receipt` names. The item is valid during the call.
    using GiveBack = std::function<void(const limit::ChargeItem&, std::int64_t units,
                                        const limit::Receipt& receipt)>;

    // A key that was met less often in its intervals is not worth a batch, unless it is met more
    // than kSmall times in this one.
    static constexpr std::int64_t kMetMin = 4;
    // No batch is for fewer units, if the thread may hold as many.
    static constexpr std::int64_t kSmall = 2 * kMetMin;
    static constexpr std::chrono::seconds kLongest{1};
    static constexpr std::chrono::seconds kBriefMax{10};
    // The units of so many batches of a key are kept. A window has 50 sub-buckets unless its
    // `precision` says more.
    static constexpr std::size_t kKeptMax = 64;

    // `places`, a power of 2: so many keys are known at once. Memory for them is taken when the
    // first key is met.
    explicit LeaseTable(GiveBack give_back, std::size_t places = 1'024)
        : give_back_(std::move(give_back)), places_(places) {}

    // A request meets the item, whose policy has leases and belongs to `config`, with `cost` units.
    // Null: there is no room to know it. The next meet() may make it the lease of another key:
    // is_of() and the number of the batch tell.
    Lease* meet(const limit::ChargeItem& item, std::int64_t cost,
                const std::shared_ptr<const config::Config>& config, SteadyTime now);

    // Gives back `cost` units that spend() took of `batch`; `receipt` is the batch's. They go to
    // the batch if it has not ended.
    void unspend(Lease& lease, Lease::Number batch, std::int64_t cost,
                 const limit::ChargeItem& item, const limit::Receipt& receipt, SteadyTime now);

    // The lease of an item that was met; null: its place is another's by now.
    Lease* find(const limit::ChargeItem& item, const std::shared_ptr<const config::Config>& config);

    // How many units to ask for now, above 1; 0: none. `cost`: of the request that the batch could
    // not serve. What is left of the batch is given back if it has ended, or if others are wanted.
    std::int64_t wanted(Lease& lease, std::int64_t cost, std::int64_t threads, SteadyTime now);

    // A command leaves that asks for `units`. `owner` owns what the item points to.
    void asked(Lease& lease, std::int64_t units, std::shared_ptr<const void> owner, SteadyTime now);
    // Whether a batch is under way that has `cost` units for a request, which waits for it.
    static bool promise(Lease& lease, std::int64_t cost);
    // Its answer. Returns whether the units are there to be spent; else, if it admitted them, they
    // were given back.
    bool answered(Lease& lease, const limit::Verdict& verdict, SteadyTime now);
    // There is none: the units may be counted, and are not used.
    void failed(Lease& lease, SteadyTime now);

    // From now on so many threads share the slack: units that are kept beyond the part of one are
    // given back. Below 1: the number is not known, and the former one holds.
    void use_threads(std::int64_t threads, SteadyTime now);
    // Ends batches by time, of whose rest some is given back. Call about every 50 ms.
    void end_batches(SteadyTime now);
    // Ends all batches, and those under way, and forgets all keys. Kept units are given back, too.
    void drop_all();
    // The same of this identifier, under all policies.
    void drop(std::string_view identifier);

    // Units in batches.
    std::int64_t units() const;
    // How many that were kept have expired since this was called last.
    std::int64_t take_expired() { return std::exchange(expired_, 0); }
    // Units of batches of this identifier under this policy.
    std::int64_t units_of(const limit::ChargeItem& item) const;

  private:
    std::size_t place_of(const limit::ChargeItem& item) const;
    Lease* find_or_place(const limit::ChargeItem& item,
                         const std::shared_ptr<const config::Config>& config, SteadyTime now);
    void begin(Lease& lease, const limit::ChargeItem& item,
               const std::shared_ptr<const config::Config>& config);
    void end(Lease& lease);
    void end_by_time(Lease& lease, SteadyTime now);
    bool keep(Lease& lease, std::int64_t units, const std::vector<limit::LimitVerdict>& told,
              const limit::Receipt& receipt, SteadyTime now);
    std::int64_t kept_of(Lease& lease, SteadyTime now);
    void give_back_kept(Lease& lease, std::int64_t units);
    static std::int64_t held(const Lease& lease);
    static std::int64_t batch_for(const Lease& lease, std::int64_t most, SteadyTime now);
    Lease* of_other_tier(const Lease& lease);
    std::int64_t held_by_other_tier(const Lease& lease, SteadyTime now);
    void drop(Lease& lease);
    static void forget_owner(Lease& lease, bool is_dropped);
    static void forget_key(Lease& lease);

    GiveBack give_back_;
    std::size_t places_;
    std::vector<Lease> leases_;    // empty until one is met
    std::vector<Lease*> live_;     // with a batch
    std::vector<Lease*> keeping_;  // with units that are kept, or were lately
    std::int64_t threads_ = 1;     // that share the slack
    Lease::Number last_batch_ = 0;
    std::int64_t expired_ = 0;  // see take_expired()
};

// A decision of which batches have admitted some items or all. Reused with its decision; allocates
// only to grow.
struct LeasedPart {
    // What was spent of a batch.
    struct Spent {
        Lease* lease;  // may be another key's by now: the number of the batch tells
        Lease::Number batch;
        std::size_t position;  // among the items of the decision
        limit::Micros at;      // with the generation: the receipt of the batch
        std::uint64_t generation;
    };
    std::vector<Spent> spent;
    std::vector<limit::LimitVerdict> limits;  // of what was spent, in its order
    LimitDecision rest;  // the store decides it; without items, nothing is left to ask
};

// Admits requests from batches, and asks for new ones. The servers are stopped before it is
// destroyed.
class Leases {
  public:
    struct Parts {
        const RedisStore& redis;
        const Refunds& refunds;
        const Replicas* replicas;  // 0: not known. Null, or while it is 0: no batches are taken
        const FailurePolicy& failure_policy;
        Metrics& metrics;
    };
    enum class Served : std::uint8_t { none, some, all };

    // Sends the charge of a decision that has waited in vain, and whose result is not there yet.
    using Send = std::function<void(LimitDecision&)>;

    Leases(const Parts& parts, Send send);
    ~Leases();

    // Whether any policy has leases, and how many threads this process has. Ends all batches.
    void use(bool is_used, int threads);
    bool is_used() const { return is_used_; }

    // Spends of batches for the items that have them. `some`: part_of(decision).rest has the items
    // that the store is to be asked about. `all`: the decision has its verdict.
    Served serve(LimitDecision& decision, SteadyTime now);
    // Whether the decision, of which the last serve() has admitted nothing, waits for a batch that
    // is, or now gets, under way. Then its sleeper is woken when the result is there. Requires that
    // no denial of it is remembered.
    bool wait(LimitDecision& decision, SteadyTime now);
    // Asks for batches of the items that the last serve() had none for. After the request's own
    // command, which goes first.
    void refill(const LimitDecision& decision, SteadyTime now);
    // The rest is decided: makes the verdict of the whole. What was spent returns to its batches
    // unless the rest is admitted.
    void join(LimitDecision& decision, SteadyTime now);

    // Gives back what is left of batches that have ended. Call about every 50 ms.
    void tend(SteadyTime now);
    // Ends all batches, and gives back what is left.
    void end_all();
    // The same of an identifier whose counts are reset.
    void end_of(std::string_view identifier);
    // Whether nothing is under way to Redis: what leaves at a stop may need a second trip there, as
    // the script is not known yet, or another node has the key.
    bool is_idle() const { return idle_.size() == commands_.size() && giving_back_ == 0; }

    // Units in batches of this thread that items with the identifier and a policy of that name
    // have.
    std::int64_t units_of(const limit::ChargeItem& item) const { return table_.units_of(item); }

    static LeasedPart& part_of(LimitDecision& decision);

  private:
    class Command;
    struct Unserved {
        Lease* lease;
        std::int64_t cost;
        std::size_t position;  // among the items of the decision
    };

    static void join_verdicts(LimitDecision& decision);
    bool ask(Lease& lease, std::int64_t units, const LimitDecision& decision, SteadyTime now);
    template <class Decide>
    void end_waiting(const Lease& lease, Decide decide);
    void decide_waiting(LimitDecision& decision);
    bool wait_for(const Unserved& one, LimitDecision& decision, SteadyTime now);
    void give_back(const limit::ChargeItem& item, std::int64_t units,
                   const limit::Receipt& receipt);
    void append_rest(const LimitDecision& decision, LeasedPart& part) const;
    std::int64_t threads() const;

    Parts parts_;
    bool is_used_ = false;
    int threads_ = 1;  // of this process
    LeaseTable table_;
    Send send_;
    std::vector<Unserved> unserved_;           // by the last serve()
    const LimitDecision* may_wait_ = nullptr;  // it, of the last serve()
    struct Waiting {
        const Lease* lease;
        LimitDecision* decision;
    };
    std::vector<Waiting> waiting_;  // for batches that are under way
    std::vector<Waiting> ready_;    // scratch, empty or of none
    std::vector<std::unique_ptr<Command>> commands_;
    std::vector<Command*> idle_;   // of them
    std::size_t giving_back_ = 0;  // commands of give_back() whose reply has not come
};

}  // namespace tidegate::store

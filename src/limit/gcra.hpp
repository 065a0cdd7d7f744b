// One limit's backlog for one identifier: what gcra (token_bucket) and leaky_bucket are made of.
//
// A unit takes duration / quota to leave, and the bucket remembers only when the last one will have
// left: its `tat`. That time is exact, a whole number of microseconds and a fraction over the
// quota, so a million per half second is a million, not what rounding makes of it.
//
// Both stores decide by the same rules, and tell clients what this unit says:
// - `now` is the asker's, whatever time others came at: `tat` alone never moves back, but by giving
//   back.
// - leaky_bucket holds a request until what came before it has left; one of cost 0 is not held.
//
// Pure: no clock, no allocation.
#pragma once

#include <cstdint>
#include <string>

#include "limit/charge.hpp"
#include "limit/limit.hpp"
#include "limit/verbs.hpp"

namespace tidegate::limit {

// Microseconds and a fraction of one: `parts` over the quota that goes with it, below 1.
struct ExactTime {
    std::int64_t us = 0;
    std::int64_t parts = 0;
};

// What of a limit says how fast and how much: its own, or the share of one process of several,
// rounded down. A share of 0 admits nothing. A Limit stands for its own Flow.
struct Flow {
    Flow(const Limit& limit, std::int64_t divisor = 1);

    std::int64_t quota;
    std::int64_t burst;
    std::int64_t duration_us;
    std::int64_t max_delay_us;
    bool leaky;
};

// How long `units` take to leave: units * duration / quota. Units above twice the burst take as
// long as that: a bucket is never fuller. Requires quota >= 1 and units >= 0.
ExactTime time_for(const Flow& flow, std::int64_t units);

// All zero: empty.
struct Bucket {
    std::uint32_t parts_of = 0;  // the quota that `parts` are counted in
    std::int64_t tat_us = 0;     // when the last unit will have left, and
    std::int64_t parts = 0;      // the fraction of a microsecond after it
    // leaky_bucket: when the last in line came; negative once that is not known, because another
    // came no later than it or because it has left.
    std::int64_t last_us = 0;
};

// How long from `now` until the bucket is empty, in parts of the flow's quota. Where the bucket's
// are of another quota (a reload, another tier), its fraction is rounded up to a microsecond.
ExactTime backlog_at(const Bucket& bucket, const Flow& flow, Micros now);

// The backlog once `units` more are taken: never above that of twice the burst, unless it was.
ExactTime backlog_after(const Flow& flow, ExactTime backlog, std::int64_t units);

// gcra: the backlog with the cost is within the burst. leaky_bucket: the backlog without it is
// within the burst and within max_delay. Neither ever admits a cost above the burst.
bool passes(const Flow& flow, ExactTime backlog, std::int64_t cost);

// Until the cost passes if nothing is taken; kNever if it never does. Exact: a microsecond earlier
// it is denied. Requires that it does not pass now.
Micros retry_after(const Flow& flow, ExactTime backlog, std::int64_t cost);

// The backlog, rounded up: how long leaky_bucket holds what it admits.
Micros wait_of(ExactTime backlog);

// How many units the backlog is, rounded up: what is in the bucket.
std::int64_t units_of(const Flow& flow, ExactTime backlog);

// What a client sees once `taken` units are taken, 0 if it was denied. `remaining` is how many
// units would pass now one by one, `next_unit` until that grows by one; 0 when it is at its most.
LimitVerdict verdict_of(const Flow& flow, ExactTime backlog, std::int64_t taken);

// Takes `units` >= 1. Requires quota >= 1.
void take(Bucket& bucket, const Flow& flow, Micros now, std::int64_t units);

// Gives back what was taken at `at`, as far as that cannot let more through than if it had never
// been taken. leaky_bucket: all of it if it is the last in line, else nothing. gcra: what has not
// leaked since, as if nothing else had been in the bucket, for the bucket might have been empty
// without it and have been filled again; so nothing if it has been empty since.
void give_back(Bucket& bucket, const Flow& flow, Micros at, std::int64_t units, Micros now);

// What this process admitted while Redis was away, as if nothing had been in the bucket before.
struct UnreportedBucket {
    void take(const Limit& limit, std::int64_t units, const Now& at);
    void give_back(const Limit& limit, std::int64_t units, Micros at, const Now& now);
    void add_later(const Limit& limit, const UnreportedBucket& later);
    Micros ends(const Limit& limit, Micros wall_ahead) const;
    std::int64_t units() const { return taken; }
    static std::size_t portions() { return 0; }
    void append_report(const Limit& limit, const Now& now, std::string& out) const;

    Bucket bucket;  // with the whole quota
    std::int64_t taken = 0;
    Micros first{0};  // when the first unit came
};

// gcra and leaky_bucket. The scripts say parts and tat of them.
class BucketCount : public CommonVerbs {
  public:
    using Standing = ExactTime;  // the backlog
    using Unreported = UnreportedBucket;

    ExactTime look(const Limit& limit, const Asked& asked) const {
        return backlog_at(bucket_, {limit, asked.divisor}, asked.now.steady);
    }
    static bool passes(const Limit& limit, const Asked& asked, const ExactTime& backlog) {
        return limit::passes({limit, asked.divisor}, backlog, asked.cost);
    }
    static Micros retry(const Limit& limit, const Asked& asked, const ExactTime& backlog) {
        return retry_after({limit, asked.divisor}, backlog, asked.cost);
    }
    static Micros wait(const Limit& limit, const ExactTime& backlog) {
        return limit.traits().queues ? wait_of(backlog) : Micros{0};
    }
    static LimitVerdict verdict_of(const Limit& limit, const Asked& asked, const ExactTime& backlog,
                                   std::int64_t taken) {
        return limit::verdict_of({limit, asked.divisor}, backlog, taken);
    }
    static void reserve(const Limit&, const Asked&, const ExactTime&) {}
    void take(const Limit& limit, const Asked& asked, const ExactTime&) {
        const Flow flow{limit, asked.divisor};
        // A share of nothing has no rate to count by; it denies everything as it is.
        if (flow.quota > 0) limit::take(bucket_, flow, asked.now.steady, asked.cost);
    }
    void give_back(const Limit& limit, const Asked& asked, Micros at) {
        limit::give_back(bucket_, {limit, asked.divisor}, at, asked.cost, asked.now.steady);
    }
    LimitCount count(const Limit& limit, const Asked& asked) const;
    std::int64_t ends_us(const Now&) const { return bucket_.tat_us + (bucket_.parts > 0 ? 1 : 0); }
    void save(CountsWriter& out) const;
    void load(CountsReader& in);
    double weight(const Limit& limit, const Asked& asked) const;

    static void pack_terms(const Limit& limit, Micros wall, Packer& out);
    static void append_request(const Limit& limit, const Charge& charge, std::string& out);
    static void append_refund(const Limit& limit, const Refund& refund, std::string& out);
    static bool are_possible(const Limit& limit, const StateNumbers& numbers) {
        return numbers.first < limit.quota;
    }
    static ScriptAnswer answer(const ScriptQuestion& question, const StateNumbers& numbers);
    static void take_units(const Limit& limit, Micros now, std::int64_t cost,
                           StateNumbers& numbers);
    static bool is_possible(const Limit& limit, const InspectedNumbers& numbers) {
        return numbers[0] < limit.quota;
    }
    static LimitCount count_of(const Limit& limit, const InspectedNumbers& numbers, Micros now);
    // What a bucket took is time: so many parts of its duration under the quota of then.
    static void adapt_to_refund(Limit& limit, std::int64_t quota, std::int64_t cost);

  private:
    Bucket bucket_;
};

}  // namespace tidegate::limit

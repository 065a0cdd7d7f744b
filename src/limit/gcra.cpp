#include "limit/gcra.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace tidegate::limit {
namespace {

// Time in parts: microseconds times the quota. At most 2^53 * 2^32.
__extension__ using Wide = __int128;

Wide in_parts(const Flow& flow, ExactTime time) {
    return Wide{time.us} * flow.quota + time.parts;
}

// Requires quota >= 1.
ExactTime exactly(const Flow& flow, Wide parts) {
    return {static_cast<std::int64_t>(parts / flow.quota),
            static_cast<std::int64_t>(parts % flow.quota)};
}

Micros rounded_up(const Flow& flow, Wide parts) {
    return Micros{static_cast<std::int64_t>((parts + flow.quota - 1) / flow.quota)};
}

Wide parts_for(const Flow& flow, std::int64_t units) {
    return Wide{std::min(units, 2 * flow.burst)} * flow.duration_us;
}

// The largest backlog that admits: with its own cost for gcra, without it for leaky_bucket.
Wide fullest(const Flow& flow) {
    const Wide burst = parts_for(flow, flow.burst);
    return flow.leaky ? std::min(burst, Wide{flow.max_delay_us} * flow.quota) : burst;
}

bool is_nothing(ExactTime time) {
    return time.us == 0 && time.parts == 0;
}

void set_tat(Bucket& bucket, const Flow& flow, ExactTime tat) {
    bucket.parts_of = static_cast<std::uint32_t>(flow.quota);
    bucket.tat_us = tat.us;
    bucket.parts = tat.parts;
}

// What the scripts say of a bucket.
Bucket bucket_of(const Limit& limit, std::int64_t parts, std::int64_t tat_us) {
    Bucket bucket;
    bucket.parts_of = static_cast<std::uint32_t>(limit.quota);
    bucket.parts = parts;
    bucket.tat_us = tat_us;
    return bucket;
}

// How long a full bucket takes to become empty; for leaky_bucket, how long the longest line takes.
ExactTime time_of_fullest(const Limit& limit) {
    const ExactTime burst = time_for(limit, limit.burst);
    const bool line_is_shorter = limit.traits().queues && limit.max_delay.count() <= burst.us;
    return line_is_shorter ? ExactTime{limit.max_delay.count(), 0} : burst;
}

void append_time(ExactTime time, std::string& out) {
    append_double(time.us, out);
    append_double(time.parts, out);
}

// By how much a bucket that held something before is fuller. Once a full one would have become
// empty since the first unit came, all that it holds came later: then only units that have not
// leaked yet are added.
ExactTime added(const UnreportedBucket& one, const Limit& limit, Micros now) {
    const Micros full{time_for(limit, limit.burst).us};
    return now - one.first <= full ? time_for(limit, one.taken)
                                   : backlog_at(one.bucket, limit, now);
}

LimitCount count_of_backlog(const Flow& flow, ExactTime backlog) {
    const LimitVerdict verdict = verdict_of(flow, backlog, 0);
    LimitCount count;
    count.counted = units_of(flow, backlog);
    count.remaining = verdict.remaining;
    if (verdict.next_unit > Micros{0}) count.next_unit = verdict.next_unit;
    if (count.counted > 0) count.all_free = wait_of(backlog);
    count.denied = !passes(flow, backlog, 1);
    if (count.denied) count.denied_for = retry_after(flow, backlog, 1);
    return count;
}

}  // namespace

Flow::Flow(const Limit& limit, std::int64_t divisor)
    : quota(limit.quota / divisor),
      burst(limit.burst / divisor),
      duration_us(limit.duration.count()),
      max_delay_us(limit.max_delay.count()),
      leaky(limit.traits().queues) {}

ExactTime time_for(const Flow& flow, std::int64_t units) {
    assert(flow.quota >= 1 && units >= 0);
    return exactly(flow, parts_for(flow, units));
}

ExactTime backlog_at(const Bucket& bucket, const Flow& flow, Micros now) {
    ExactTime tat{bucket.tat_us, bucket.parts};
    if (bucket.parts_of != flow.quota && tat.parts > 0) tat = {tat.us + 1, 0};
    if (tat.us < now.count()) return {};
    return {tat.us - now.count(), tat.parts};
}

ExactTime backlog_after(const Flow& flow, ExactTime backlog, std::int64_t units) {
    if (units == 0 || flow.quota == 0) return backlog;
    const Wide before = in_parts(flow, backlog);
    const Wide most = std::max(before, parts_for(flow, 2 * flow.burst));
    return exactly(flow, std::min(before + parts_for(flow, units), most));
}

bool passes(const Flow& flow, ExactTime backlog, std::int64_t cost) {
    if (cost > flow.burst) return false;
    if (flow.quota == 0) return cost == 0 && is_nothing(backlog);
    const Wide own = flow.leaky ? 0 : parts_for(flow, cost);
    return in_parts(flow, backlog) + own <= fullest(flow);
}

Micros retry_after(const Flow& flow, ExactTime backlog, std::int64_t cost) {
    assert(!passes(flow, backlog, cost));
    if (cost > flow.burst || (flow.quota == 0 && cost > 0)) return kNever;
    if (flow.quota == 0) return wait_of(backlog);
    const Wide own = flow.leaky ? 0 : parts_for(flow, cost);
    return rounded_up(flow, in_parts(flow, backlog) + own - fullest(flow));
}

Micros wait_of(ExactTime backlog) {
    return Micros{backlog.us + (backlog.parts > 0 ? 1 : 0)};
}

std::int64_t units_of(const Flow& flow, ExactTime backlog) {
    const Wide parts = in_parts(flow, backlog) + flow.duration_us - 1;
    return static_cast<std::int64_t>(parts / flow.duration_us);
}

LimitVerdict verdict_of(const Flow& flow, ExactTime backlog, std::int64_t taken) {
    LimitVerdict verdict;
    if (flow.quota == 0 || flow.burst == 0) return verdict;
    const Wide parts = in_parts(flow, backlog_after(flow, backlog, taken));
    // The backlog that lets one unit pass, then two, and so on down.
    const Wide first = fullest(flow) - (flow.leaky ? 0 : flow.duration_us);
    if (parts <= first) {
        verdict.remaining = static_cast<std::int64_t>((first - parts) / flow.duration_us) + 1;
    }
    const Wide next = first - Wide{verdict.remaining} * flow.duration_us;
    if (next >= 0) verdict.next_unit = rounded_up(flow, parts - next);
    return verdict;
}

void take(Bucket& bucket, const Flow& flow, Micros now, std::int64_t units) {
    assert(flow.quota >= 1 && units >= 1);
    const ExactTime backlog = backlog_at(bucket, flow, now);
    const std::int64_t newest = std::abs(bucket.last_us);
    bucket.last_us = now.count() > newest ? now.count() : -newest;
    const ExactTime after = backlog_after(flow, backlog, units);
    set_tat(bucket, flow, {now.count() + after.us, after.parts});
}

void give_back(Bucket& bucket, const Flow& flow, Micros at, std::int64_t units, Micros now) {
    const ExactTime backlog = backlog_at(bucket, flow, now);
    if (flow.quota == 0 || is_nothing(backlog)) return;
    Wide given = parts_for(flow, units);
    if (flow.leaky) {
        if (bucket.last_us != at.count()) return;
        bucket.last_us = -at.count();
    } else {
        given -= Wide{std::max<std::int64_t>(0, now.count() - at.count())} * flow.quota;
        if (given <= 0) return;
    }
    const Wide tat = in_parts(flow, {now.count() + backlog.us, backlog.parts});
    // Not to before it came, though the share may have changed meanwhile.
    set_tat(bucket, flow, exactly(flow, std::max(tat - given, Wide{at.count()} * flow.quota)));
}

void UnreportedBucket::take(const Limit& limit, std::int64_t units, const Now& at) {
    if (taken == 0) first = at.steady;
    taken = std::min(taken + units, kQuotaMax);
    limit::take(bucket, limit, at.steady, units);
}

void UnreportedBucket::give_back(const Limit& limit, std::int64_t units, Micros at,
                                 const Now& now) {
    const Bucket before = bucket;
    limit::give_back(bucket, limit, at, units, now.steady);
    const bool gone = bucket.tat_us != before.tat_us || bucket.parts != before.parts;
    if (gone) taken = std::max<std::int64_t>(0, taken - units);
}

void UnreportedBucket::add_later(const Limit& limit, const UnreportedBucket& later) {
    if (later.taken == 0) return;
    const Micros earliest = taken == 0 ? later.first : first;
    take(limit, later.taken, later.first);
    first = earliest;
    const auto end_of = [](const Bucket& one) { return std::pair(one.tat_us, one.parts); };
    if (end_of(bucket) < end_of(later.bucket)) bucket = later.bucket;
}

Micros UnreportedBucket::ends(const Limit& limit, Micros) const {
    if (taken == 0) return Micros{0};
    const Micros full{time_for(limit, limit.burst).us};
    return std::max(Micros{bucket.tat_us}, first + full) + Micros{1};
}

void UnreportedBucket::append_report(const Limit& limit, const Now& now, std::string& out) const {
    append_packed(static_cast<std::uint16_t>(taken > 0 ? 1 : 0), out);
    if (taken == 0) return;
    append_time(added(*this, limit, now.steady), out);
    append_time({bucket.tat_us, bucket.parts}, out);
    append_time(time_for(limit, 2 * limit.burst), out);
    append_double(std::abs(bucket.last_us), out);
}

LimitCount BucketCount::count(const Limit& limit, const Asked& asked) const {
    return count_of_backlog({limit, asked.divisor}, look(limit, asked));
}

void BucketCount::save(CountsWriter& out) const {
    out.number(std::uint64_t{bucket_.parts_of});
    out.number(bucket_.tat_us);
    out.number(bucket_.parts);
    out.number(bucket_.last_us);
}

void BucketCount::load(CountsReader& in) {
    bucket_.parts_of = static_cast<std::uint32_t>(in.number());
    bucket_.tat_us = in.time_us();
    bucket_.parts = in.time_us();
    bucket_.last_us = in.time_us();
    if (bucket_.parts < 0 || bucket_.parts >= std::max<std::int64_t>(1, bucket_.parts_of)) {
        in.refuse();
    }
}

// A unit that leaks is held until it has left. So two buckets that both admit no more weigh the
// same.
double BucketCount::weight(const Limit& limit, const Asked& asked) const {
    const Flow flow{limit, asked.divisor};
    const std::int64_t backlog = bucket_.tat_us - asked.now.steady.count();
    if (flow.quota == 0 || backlog < 0) return 0;
    const double emission =
        static_cast<double>(limit.duration.count()) / static_cast<double>(flow.quota);
    // Parts of a microsecond are no unit.
    const double units = std::ceil((static_cast<double>(backlog) - 1) / emission);
    return std::clamp(units, 1.0, static_cast<double>(std::max<std::int64_t>(1, flow.burst))) *
           emission;
}

void BucketCount::pack_terms(const Limit& limit, Micros, Packer& out) {
    const ExactTime full = time_of_fullest(limit);
    out.put_double(full.us);
    out.put_double(full.parts);
}

void BucketCount::append_request(const Limit& limit, const Charge& charge, std::string& out) {
    // The script never denies because of the cost itself in a line: a negative time makes it.
    const bool too_much = limit.traits().queues && charge.cost > limit.burst;
    append_time(too_much ? ExactTime{-1, 0} : time_for(limit, charge.cost), out);
}

void BucketCount::append_refund(const Limit& limit, const Refund& refund, std::string& out) {
    append_double(limit.quota, out);
    append_time(time_for(limit, refund.charge.cost), out);
}

ScriptAnswer BucketCount::answer(const ScriptQuestion& question, const StateNumbers& numbers) {
    const Flow flow(question.limit);
    const Bucket bucket = bucket_of(question.limit, numbers.first, numbers.second);
    const ExactTime backlog = backlog_at(bucket, flow, question.now);
    ScriptAnswer answer;
    answer.verdict = limit::verdict_of(flow, backlog, question.taken);
    answer.passes_now = limit::passes(flow, backlog, question.cost);
    answer.verdict.denied =
        question.counted_denial ? !limit::passes(flow, backlog, 0) : !answer.passes_now;
    if (!answer.passes_now) answer.retry = retry_after(flow, backlog, question.cost);
    if (flow.leaky && question.taken > 0) answer.wait = wait_of(backlog);
    return answer;
}

void BucketCount::take_units(const Limit& limit, Micros now, std::int64_t cost,
                             StateNumbers& numbers) {
    Bucket bucket = bucket_of(limit, numbers.first, numbers.second);
    limit::take(bucket, limit, now, cost);
    numbers = {bucket.parts, bucket.tat_us};
}

LimitCount BucketCount::count_of(const Limit& limit, const InspectedNumbers& numbers, Micros now) {
    return count_of_backlog(limit,
                            backlog_at(bucket_of(limit, numbers[0], numbers[1]), limit, now));
}

void BucketCount::adapt_to_refund(Limit& limit, std::int64_t quota, std::int64_t cost) {
    limit.quota = quota;
    limit.burst = std::max(limit.burst, cost);
}

}  // namespace tidegate::limit

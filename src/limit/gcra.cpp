#include "limit/gcra.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>

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

}  // namespace tidegate::limit

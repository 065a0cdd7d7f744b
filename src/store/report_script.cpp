#include "store/report_script.hpp"

#include <cstdint>
#include <cstdlib>

#include "limit/gcra.hpp"
#include "limit/period.hpp"
#include "store/charge_script.hpp"
#include "store/resp.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {
namespace {

using limit::ExactTime;
using limit::Limit;
using limit::Micros;

void append_time(ExactTime time, std::string& out) {
    append_double(time.us, out);
    append_double(time.parts, out);
}

// By how much a bucket that held something before is fuller. Once a full one would have become
// empty since the first unit came, all that it holds came later: then only units that have not
// leaked yet are added.
ExactTime added(const LocalTaken::OfLimit& taken, const Limit& limit, Micros now) {
    const Micros full{limit::time_for(limit, limit.burst).us};
    return now - taken.first <= full ? limit::time_for(limit, taken.units)
                                     : limit::backlog_at(taken.bucket, limit, now);
}

void append_bucket(const LocalTaken::OfLimit& taken, const Limit& limit, Micros now,
                   std::string& out) {
    append_packed(static_cast<std::uint16_t>(taken.units > 0 ? 1 : 0), out);
    if (taken.units == 0) return;
    append_time(added(taken, limit, now), out);
    append_time({taken.bucket.tat_us, taken.bucket.parts}, out);
    append_time(limit::time_for(limit, 2 * limit.burst), out);
    append_double(std::abs(taken.bucket.last_us), out);
}

// What names a sub-bucket to the script. It compares the steady clock with that of Redis, so that
// it knows days of UTC, too, by when they began; other periods it knows by their end.
Micros name_of(const LocalTaken::Portion& portion, const Limit& limit, const limit::Now& now) {
    if (is_named_by_end(limit)) return limit::period_at(limit, portion.began).ends;
    return limit.follows_calendar() ? now.steady_at(portion.began) : portion.began;
}

void append_window(const LocalTaken::OfLimit& taken, const Limit& limit, const limit::Now& now,
                   std::string& out) {
    append_packed(static_cast<std::uint16_t>(taken.portions.size()), out);
    for (const LocalTaken::Portion& portion : taken.portions) {
        append_double(name_of(portion, limit, now).count(), out);
        append_packed(static_cast<std::uint32_t>(portion.units), out);
    }
}

}  // namespace

void append_report_command(const LocalTaken& taken, const limit::Now& now, std::string_view prefix,
                           std::optional<Micros> clock, std::string& out) {
    const limit::ChargeItem item = taken.item();
    std::string report;
    append_double(now.steady.count(), report);
    for (std::size_t k = 0; k < taken.limits.size(); ++k) {
        const Limit& limit = taken.policy->limits[k];
        if (limit.is_bucket()) {
            append_bucket(taken.limits[k], limit, now.steady, report);
        } else {
            append_window(taken.limits[k], limit, now, report);
        }
    }
    const std::size_t keys = reading_keys({&item, 1});
    append_length('*', 5 + keys + (clock ? 1 : 0), out);
    append_string("EVALSHA", out);
    append_string(report_script().sha1, out);
    append_reading({&item, 1}, keys, 0, prefix, clock, out);
    append_string(report, out);
    if (clock) append_number(static_cast<std::uint64_t>(clock->count()), out);
}

}  // namespace tidegate::store

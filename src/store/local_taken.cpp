#include "store/local_taken.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "limit/period.hpp"
#include "limit/window.hpp"

namespace tidegate::store {
namespace {

using limit::Limit;
using limit::Micros;
using Portion = LocalTaken::Portion;
using OfLimit = LocalTaken::OfLimit;

// The first portion that began at `began` or later.
auto first_from(std::vector<Portion>& portions, Micros began) {
    return std::lower_bound(
        portions.begin(), portions.end(), began,
        [](const Portion& portion, Micros from) { return portion.began < from; });
}

// When the sub-bucket began that units taken at `at` are in; of a window that its first request
// opens, `at`.
Micros beginning(const Limit& limit, const limit::Now& at) {
    if (limit.follows_calendar()) return limit::period_at(limit, at.wall).begins;
    return limit.opens_itself() ? at.steady : at.steady - at.steady % limit.precision;
}

// The portion that units are in whose sub-bucket began at `began`; portions.end() if there is none.
auto portion_from(std::vector<Portion>& portions, const Limit& limit, Micros began) {
    if (limit.opens_itself()) {
        const auto later = first_from(portions, began + Micros{1});
        if (later == portions.begin()) return portions.end();
        return std::prev(later)->began + limit::span_of(limit) > began ? std::prev(later)
                                                                       : portions.end();
    }
    const auto found = first_from(portions, began);
    return found != portions.end() && found->began == began ? found : portions.end();
}

void forget_the_oldest(std::vector<Portion>& portions, const Limit& limit, Micros now) {
    const auto counts = first_from(portions, now - limit::span_of(limit) + Micros{1});
    const auto most = static_cast<std::ptrdiff_t>(limit::marks_max(limit)) + 1;
    const auto kept = std::min<std::ptrdiff_t>(portions.end() - counts, most);
    portions.erase(portions.begin(), portions.end() - kept);
}

void take_in_window(OfLimit& taken, const Limit& limit, Micros began, std::int64_t units) {
    const auto portion = portion_from(taken.portions, limit, began);
    if (portion == taken.portions.end()) {
        taken.portions.insert(first_from(taken.portions, began), {began, units});
        forget_the_oldest(taken.portions, limit, taken.portions.back().began);
        return;
    }
    portion->units = std::min(portion->units + units, limit::kQuotaMax);
}

void take_in_bucket(OfLimit& taken, const Limit& limit, Micros at, std::int64_t units) {
    if (taken.units == 0) taken.first = at;
    taken.units = std::min(taken.units + units, limit::kQuotaMax);
    limit::take(taken.bucket, limit, at, units);
}

// Adds later units to a bucket.
void add_later_bucket(OfLimit& earlier, const Limit& limit, const OfLimit& later) {
    if (later.units == 0) return;
    const Micros first = earlier.units == 0 ? later.first : earlier.first;
    take_in_bucket(earlier, limit, later.first, later.units);
    earlier.first = first;
    const auto end_of = [](const limit::Bucket& bucket) {
        return std::pair(bucket.tat_us, bucket.parts);
    };
    if (end_of(earlier.bucket) < end_of(later.bucket)) earlier.bucket = later.bucket;
}

Micros end_of(const OfLimit& taken, const Limit& limit, Micros wall_ahead) {
    if (!limit.is_bucket()) {
        if (taken.portions.empty()) return Micros{0};
        const Micros end = limit::end_for(limit, taken.portions.back().began);
        return limit.follows_calendar() ? end - wall_ahead : end;
    }
    if (taken.units == 0) return Micros{0};
    const Micros full{limit::time_for(limit, limit.burst).us};
    return std::max(Micros{taken.bucket.tat_us}, taken.first + full) + Micros{1};
}

}  // namespace

void LocalTaken::take(std::size_t k, std::int64_t units, const limit::Now& at) {
    const Limit& limit = policy->limits[k];
    wall_ahead = at.wall - at.steady;
    if (limit.is_bucket()) {
        take_in_bucket(limits[k], limit, at.steady, units);
    } else {
        take_in_window(limits[k], limit, beginning(limit, at), units);
    }
    ends = std::max(ends, end_of(limits[k], limit, wall_ahead));
}

void LocalTaken::give_back(std::size_t k, std::int64_t units, Micros at, const limit::Now& now) {
    const Limit& limit = policy->limits[k];
    OfLimit& taken = limits[k];
    if (limit.is_bucket()) {
        const limit::Bucket before = taken.bucket;
        limit::give_back(taken.bucket, limit, at, units, now.steady);
        const bool gone =
            taken.bucket.tat_us != before.tat_us || taken.bucket.parts != before.parts;
        if (gone) taken.units = std::max<std::int64_t>(0, taken.units - units);
        return;
    }
    const limit::Now then{at, now.wall_at(at)};
    const auto portion = portion_from(taken.portions, limit, beginning(limit, then));
    if (portion == taken.portions.end()) return;
    portion->units -= std::min(units, portion->units);
    if (portion->units == 0) taken.portions.erase(portion);
}

void LocalTaken::add_later(const LocalTaken& later) {
    ends = Micros{0};
    wall_ahead = later.wall_ahead;
    for (std::size_t k = 0; k < limits.size(); ++k) {
        const Limit& limit = policy->limits[k];
        if (limit.is_bucket()) add_later_bucket(limits[k], limit, later.limits[k]);
        for (const Portion& portion : later.limits[k].portions) {
            take_in_window(limits[k], limit, portion.began, portion.units);
        }
        ends = std::max(ends, end_of(limits[k], limit, wall_ahead));
    }
}

double LocalTaken::weight() const {
    double heaviest = 0;
    for (std::size_t k = 0; k < limits.size(); ++k) {
        std::int64_t units = limits[k].units;
        for (const Portion& portion : limits[k].portions) units += portion.units;
        const std::int64_t quota = std::max<std::int64_t>(1, policy->limits[k].quota);
        const double share =
            static_cast<double>(std::min(units, quota)) / static_cast<double>(quota);
        heaviest =
            std::max(heaviest, share * static_cast<double>(policy->limits[k].duration.count()));
    }
    return heaviest;
}

std::size_t LocalTaken::portions() const {
    std::size_t count = 0;
    for (const OfLimit& one : limits) count += one.portions.size();
    return count;
}

}  // namespace tidegate::store

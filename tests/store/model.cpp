#include "store/model.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace tidegate::test {

using limit::Limit;
using limit::Micros;

std::int64_t Model::freed(const Limit& limit, std::int64_t at) {
    if (limit.anchor == limit::Anchor::first_request) return at + limit.duration.count();
    const std::int64_t bucket = at / limit.precision.count();
    return (bucket + limit.blocks) * limit.precision.count();
}

std::int64_t Model::units_at(const Counter& counter, const Limit& limit, std::int64_t moment) {
    std::int64_t units = 0;
    for (const Admitted& one : counter) {
        if (freed(limit, one.at) > moment) units += one.units;
    }
    return units;
}

// now = max(now, newest in the state)
std::int64_t Model::time_of(const Counter& counter, std::int64_t now) {
    for (const Admitted& one : counter) now = std::max(now, one.at);
    return now;
}

limit::Verdict Model::charge(const limit::Charge& charge, Micros now) {
    limit::Verdict verdict;
    std::int64_t passes_at = 0;
    bool never = false;
    std::vector<std::pair<Counter*, const Limit*>> parts;
    for (const limit::ChargeItem& item : charge.items) {
        for (const Limit& limit : item.policy->limits) {
            Counter& counter =
                counters_[{item.policy->name, std::string(item.identifier), limit.id}];
            parts.emplace_back(&counter, &limit);
            const std::int64_t units = units_at(counter, limit, time_of(counter, now.count()));
            limit::LimitVerdict told;
            told.denied = units + charge.cost > limit.quota;
            told.remaining = std::max<std::int64_t>(0, limit.quota - units);
            verdict.limits.push_back(told);
            if (!told.denied) continue;
            verdict.admitted = false;
            never = never || charge.cost > limit.quota;
            // The first moment at which something is freed and the request fits.
            std::set<std::int64_t> moments;
            for (const Admitted& one : counter) moments.insert(freed(limit, one.at));
            for (std::int64_t moment : moments) {
                if (units_at(counter, limit, moment) + charge.cost > limit.quota) continue;
                passes_at = std::max(passes_at, moment);
                break;
            }
        }
    }
    if (!verdict.admitted) {
        verdict.retry_after = never ? limit::kNever : Micros{passes_at} - now;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        auto [counter, limit] = parts[i];
        const std::int64_t time = time_of(*counter, now.count());
        if (verdict.admitted && charge.cost > 0) {
            std::int64_t at = time;
            if (limit->anchor == limit::Anchor::first_request &&
                units_at(*counter, *limit, time) > 0) {
                at = counter->back().at;
            }
            counter->push_back({at, charge.cost});
            verdict.limits[i].remaining -= charge.cost;
        }
        std::int64_t next = 0;
        for (const Admitted& one : *counter) {
            const std::int64_t moment = freed(*limit, one.at);
            if (moment > time && (next == 0 || moment < next)) next = moment;
        }
        if (next != 0) verdict.limits[i].next_unit = Micros{next} - now;
    }
    return verdict;
}

}  // namespace tidegate::test

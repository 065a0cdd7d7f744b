// What the records of the in-process store tell people.
#include <algorithm>

#include "store/memory_store_record.hpp"

namespace tidegate::store {

using limit::Limit;

template <class Label>
LimitCount WindowCount<Label>::count(const Limit& limit, const Asked& asked) const {
    const Look standing = look(limit, asked);
    const std::int64_t share = asked.share(limit);
    WindowStand stand;
    stand.units = standing.units;
    stand.next_free = standing.next_free;
    if (standing.units > 0) {
        stand.all_free = limit::frees_at(window_, ring(), limit, standing, standing.units);
    }
    if (share > 0 && !passes(limit, asked, standing)) {
        stand.passes_at = asked.now + retry(limit, asked, standing);
    }
    return count_of_window(stand, share, asked.now);
}

template LimitCount WindowCount<std::uint16_t>::count(const Limit&, const Asked&) const;
template LimitCount WindowCount<std::uint64_t>::count(const Limit&, const Asked&) const;

LimitCount BucketCount::count(const Limit& limit, const Asked& asked) const {
    return count_of_bucket({limit, asked.divisor}, look(limit, asked));
}

LimitCount MomentsCount::count(const Limit& limit, const Asked& asked) const {
    const Micros at = std::max(asked.now, Micros{newest_us_});
    return count_of_schedule(moments_, true, limit, share(limit, asked), at, asked.now);
}

LimitCount SlotsCount::count(const Limit& limit, const Asked& asked) const {
    return count_of_slots(held_at(asked.now.count()), asked.share(limit));
}

}  // namespace tidegate::store

#include "limit/window.hpp"

#include <algorithm>
#include <cassert>

#include "limit/period.hpp"

namespace tidegate::limit {
namespace {

template <class Label>
std::size_t index_of(const WindowOf<Label>& window, std::size_t room, std::size_t position) {
    const std::size_t index = window.first + position;
    return index < room ? index : index - room;
}

template <class Label>
const MarkOf<Label>& mark_at(const WindowOf<Label>& window, Ring<const MarkOf<Label>> ring,
                             std::size_t position) {
    return ring[index_of(window, ring.size(), position)];
}

template <class Label>
Label age_of(const WindowOf<Label>& window, Label label) {
    return static_cast<Label>(window.newest - label);
}

// When a sub-bucket of that label stops counting.
template <class Label>
Micros end_of(const WindowOf<Label>& window, const Limit& limit, Label label) {
    return Micros{window.ends_us} -
           static_cast<std::int64_t>(age_of(window, label)) * limit.precision;
}

// The first of the marks [from, window.marks) for which `reached` holds; they are ordered by time.
template <class Label, class Reached>
std::size_t first_mark(const WindowOf<Label>& window, Ring<const MarkOf<Label>> ring,
                       std::size_t from, Reached reached) {
    std::size_t low = from;
    std::size_t high = window.marks;
    while (low < high) {
        const std::size_t middle = (low + high) / 2;
        if (reached(mark_at(window, ring, middle))) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// The total when the sub-bucket at `position` began; window.marks is the newest.
template <class Label>
std::uint32_t total_before(const WindowOf<Label>& window, Ring<const MarkOf<Label>> ring,
                           std::size_t position) {
    return position == 0 ? window.base : mark_at(window, ring, position - 1).total;
}

// As end_for(), for windows that do not follow the calendar.
Micros end_on_grid(const Limit& limit, Micros at) {
    return (limit.opens_itself() ? at : at - at % limit.precision) + span_of(limit);
}

// Apart, so that verdict_of() need not save registers for a call that it seldom makes.
[[gnu::noinline, gnu::cold]] Micros end_of_period(const Limit& limit, Micros at) {
    return period_at(limit, at).ends;
}

// Whether units taken at `at` belong to the newest sub-bucket. Requires that it still counts.
template <class Label>
bool newest_is_current(const WindowOf<Label>& window, const Limit& limit, Micros at) {
    return end_on_grid(limit, at) == Micros{window.ends_us} || limit.opens_itself();
}

template <class Label>
bool newest_has_units(const WindowOf<Label>& window, Ring<const MarkOf<Label>> ring) {
    return window.total != total_before(window, ring, window.marks);
}

template <class Label>
void forget(WindowOf<Label>& window, Ring<const MarkOf<Label>> ring, std::size_t expired) {
    if (expired == 0) return;
    window.base = mark_at(window, ring, expired - 1).total;
    window.first = static_cast<std::uint16_t>((window.first + expired) % ring.size());
    window.marks = static_cast<std::uint16_t>(window.marks - expired);
}

template <class Label>
void add_mark(WindowOf<Label>& window, Ring<MarkOf<Label>> ring, const Limit& limit) {
    if (window.marks == marks_max(limit)) forget(window, ring, 1);
    assert(window.marks < ring.size());
    ring[index_of(window, ring.size(), window.marks)] = {window.total, window.newest};
    ++window.marks;
}

// Where the units taken at `at` are: the position of a mark, window.marks for the newest, more
// than that if nowhere.
template <class Label>
std::size_t position_of(const WindowOf<Label>& window, Ring<const MarkOf<Label>> ring,
                        const Limit& limit, Micros at) {
    const std::size_t nowhere = window.marks + 1U;
    const Micros ends{window.ends_us};
    if (limit.opens_itself()) {
        return at >= ends - span_of(limit) && at < ends ? window.marks : nowhere;
    }
    const Micros end = end_on_grid(limit, at);
    if (end >= ends) return end == ends ? window.marks : nowhere;
    const std::size_t position = first_mark(window, ring, 0, [&](const MarkOf<Label>& mark) {
        return end_of(window, limit, mark.label) >= end;
    });
    if (position == window.marks) return nowhere;
    return end_of(window, limit, mark_at(window, ring, position).label) == end ? position : nowhere;
}

}  // namespace

Micros end_for(const Limit& limit, Micros at) {
    return limit.follows_calendar() ? end_of_period(limit, at) : end_on_grid(limit, at);
}

Micros begin_for(const Limit& limit, Micros ends) {
    if (limit.follows_calendar()) return period_at(limit, ends - Micros{1}).begins;
    return ends - span_of(limit);
}

template <class Label>
Standing standing_at(const WindowOf<Label>& window, Ring<const MarkOf<Label>> ring,
                     const Limit& limit, Micros now) {
    assert(now >= Micros{0} && now <= kNowMax);
    const Micros ends{window.ends_us};
    Standing standing;
    standing.at = std::max(now, ends - span_of(limit));
    if (ends <= now || window.total == window.base) return standing;

    const auto counts = [&](const MarkOf<Label>& mark) {
        return end_of(window, limit, mark.label) > standing.at;
    };
    std::size_t expired = 0;
    // Nearly always nothing or little has expired: look there first.
    if (window.marks > 0 && !counts(mark_at(window, ring, 0))) {
        expired = first_mark(window, ring, 1, counts);
    }
    standing.units = static_cast<std::uint32_t>(window.total - total_before(window, ring, expired));
    standing.expired = static_cast<std::uint16_t>(expired);
    if (standing.units == 0) return standing;
    standing.next_free =
        expired < window.marks ? end_of(window, limit, mark_at(window, ring, expired).label) : ends;
    return standing;
}

template <class Label>
Micros frees_at(const WindowOf<Label>& window, Ring<const MarkOf<Label>> ring, const Limit& limit,
                const Standing& standing, std::int64_t needed) {
    assert(needed >= 1 && needed <= standing.units);
    const auto base =
        static_cast<std::uint32_t>(window.total - static_cast<std::uint32_t>(standing.units));
    const std::size_t position =
        first_mark(window, ring, standing.expired, [&](const MarkOf<Label>& mark) {
            return static_cast<std::uint32_t>(mark.total - base) >= needed;
        });
    if (position == window.marks) return Micros{window.ends_us};
    return end_of(window, limit, mark_at(window, ring, position).label);
}

std::size_t marks_max(const Limit& limit) {
    const std::int64_t most = limit.blocks - 1;
    if (limit.state() != StateKind::log) return static_cast<std::size_t>(most);
    return static_cast<std::size_t>(std::min(most, kLogQuotaMax));
}

template <class Label>
std::size_t marks_after_take(const WindowOf<Label>& window, Ring<const MarkOf<Label>> ring,
                             const Limit& limit, const Standing& standing) {
    if (standing.units == 0) return 0;
    const auto kept = static_cast<std::size_t>(window.marks - standing.expired);
    if (newest_is_current(window, limit, standing.at) || !newest_has_units(window, ring)) {
        return kept;
    }
    return std::min(kept + 1, marks_max(limit));
}

template <class Label>
void take(WindowOf<Label>& window, Ring<MarkOf<Label>> ring, const Limit& limit,
          const Standing& standing, std::int64_t units) {
    assert(units >= 1 && standing.units + units <= kQuotaMax);
    const Micros ends = end_on_grid(limit, standing.at);
    if (standing.units == 0) {
        window.base = window.total;
        window.first = 0;
        window.marks = 0;
        window.ends_us = ends.count();
    } else {
        forget(window, ring, standing.expired);
        if (!newest_is_current(window, limit, standing.at)) {
            if (newest_has_units(window, ring)) add_mark(window, ring, limit);
            const auto gap = (ends.count() - window.ends_us) / limit.precision.count();
            window.newest = static_cast<Label>(window.newest + static_cast<std::uint64_t>(gap));
            window.ends_us = ends.count();
        }
    }
    window.total += static_cast<std::uint32_t>(units);
}

template <class Label>
void give_back(WindowOf<Label>& window, Ring<MarkOf<Label>> ring, const Limit& limit, Micros at,
               std::int64_t units, Micros now) {
    const Standing standing = standing_at(window, ring, limit, now);
    if (standing.units == 0) return;
    const std::size_t position = position_of(window, ring, limit, at);
    if (position < standing.expired || position > window.marks) return;
    const bool is_newest = position == window.marks;
    const std::uint32_t begin = total_before(window, ring, position);
    const std::uint32_t end = is_newest ? window.total : mark_at(window, ring, position).total;
    const auto held = static_cast<std::uint32_t>(end - begin);
    const auto given = static_cast<std::uint32_t>(std::min<std::int64_t>(units, held));
    window.total -= given;
    // Every later mark has the total without them, and an empty sub-bucket none at all.
    const std::size_t gone = !is_newest && given == held ? 1 : 0;
    for (std::size_t i = position + gone; i < window.marks; ++i) {
        MarkOf<Label> mark = mark_at(window, ring, i);
        mark.total -= given;
        ring[index_of(window, ring.size(), i - gone)] = mark;
    }
    window.marks = static_cast<std::uint16_t>(window.marks - gone);
}

LimitVerdict verdict_of(const Limit& limit, const Standing& standing, Micros now,
                        std::int64_t share, std::int64_t taken) {
    LimitVerdict verdict;
    verdict.remaining = std::max<std::int64_t>(0, share - standing.units - taken);
    if (standing.units > 0) {
        verdict.next_unit = standing.next_free - now;
    } else if (taken > 0) {
        verdict.next_unit = end_for(limit, standing.at) - now;
    }
    return verdict;
}

template Standing standing_at(const Window&, Ring<const Mark>, const Limit&, Micros);
template Micros frees_at(const Window&, Ring<const Mark>, const Limit&, const Standing&,
                         std::int64_t);
template std::size_t marks_after_take(const Window&, Ring<const Mark>, const Limit&,
                                      const Standing&);
template void take(Window&, Ring<Mark>, const Limit&, const Standing&, std::int64_t);
template void give_back(Window&, Ring<Mark>, const Limit&, Micros, std::int64_t, Micros);

template Standing standing_at(const Log&, Ring<const LogMark>, const Limit&, Micros);
template Micros frees_at(const Log&, Ring<const LogMark>, const Limit&, const Standing&,
                         std::int64_t);
template std::size_t marks_after_take(const Log&, Ring<const LogMark>, const Limit&,
                                      const Standing&);
template void take(Log&, Ring<LogMark>, const Limit&, const Standing&, std::int64_t);
template void give_back(Log&, Ring<LogMark>, const Limit&, Micros, std::int64_t, Micros);

}  // namespace tidegate::limit

#include "limit/window.hpp"

#include <algorithm>
#include <cassert>

namespace tidegate::limit {
namespace {

const Mark& mark_at(const Window& window, std::span<const Mark> ring, std::size_t position) {
    std::size_t index = window.first + position;
    if (index >= ring.size()) index -= ring.size();
    return ring[index];
}

// When a sub-bucket of that label stops counting.
Micros end_of(const Window& window, const Limit& limit, std::uint16_t label) {
    const auto age = static_cast<std::uint16_t>(window.newest - label);
    return Micros{window.ends_us} - age * limit.precision;
}

// The first of the marks [from, window.marks) for which `reached` holds; they are ordered by time.
template <class Reached>
std::size_t first_mark(const Window& window, std::span<const Mark> ring, std::size_t from,
                       Reached reached) {
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

// Where the sub-bucket of `at` begins, were it a new one.
Micros start_at(const Limit& limit, Micros at) {
    return limit.anchor == Anchor::first_request ? at : at - at % limit.precision;
}

// Whether units taken at `at` belong to the newest sub-bucket. Requires that it still counts.
bool newest_is_current(const Window& window, const Limit& limit, Micros at) {
    return start_at(limit, at) + span_of(limit) == Micros{window.ends_us} ||
           limit.anchor == Anchor::first_request;
}

void forget(Window& window, std::span<const Mark> ring, std::uint16_t expired) {
    if (expired == 0) return;
    window.base = mark_at(window, ring, expired - 1U).total;
    window.first = static_cast<std::uint16_t>((window.first + expired) % ring.size());
    window.marks = static_cast<std::uint16_t>(window.marks - expired);
}

}  // namespace

Standing standing_at(const Window& window, std::span<const Mark> ring, const Limit& limit,
                     Micros now) {
    assert(now >= Micros{0} && now <= kNowMax);
    const Micros ends{window.ends_us};
    Standing standing;
    standing.at = now;
    if (window.total == window.base) return standing;
    standing.at = std::max(now, ends - span_of(limit));
    if (ends <= now) return standing;

    const auto counts = [&](const Mark& mark) {
        return end_of(window, limit, mark.label) > standing.at;
    };
    std::size_t expired = 0;
    // Nearly always nothing or little has expired: look there first.
    if (window.marks > 0 && !counts(mark_at(window, ring, 0))) {
        expired = first_mark(window, ring, 1, counts);
    }
    const std::uint32_t base =
        expired == 0 ? window.base : mark_at(window, ring, expired - 1).total;
    standing.units = static_cast<std::uint32_t>(window.total - base);
    standing.expired = static_cast<std::uint16_t>(expired);
    standing.next_free =
        expired < window.marks ? end_of(window, limit, mark_at(window, ring, expired).label) : ends;
    return standing;
}

Micros frees_at(const Window& window, std::span<const Mark> ring, const Limit& limit,
                const Standing& standing, std::int64_t needed) {
    assert(needed >= 1 && needed <= standing.units);
    const auto base =
        static_cast<std::uint32_t>(window.total - static_cast<std::uint32_t>(standing.units));
    const std::size_t position = first_mark(window, ring, standing.expired, [&](const Mark& mark) {
        return static_cast<std::uint32_t>(mark.total - base) >= needed;
    });
    if (position == window.marks) return Micros{window.ends_us};
    return end_of(window, limit, mark_at(window, ring, position).label);
}

std::size_t marks_after_take(const Window& window, const Limit& limit, const Standing& standing) {
    if (standing.units == 0) return 0;
    const bool adds_one = !newest_is_current(window, limit, standing.at);
    return static_cast<std::size_t>(window.marks - standing.expired) + (adds_one ? 1 : 0);
}

void take(Window& window, std::span<Mark> ring, const Limit& limit, const Standing& standing,
          std::int64_t units) {
    assert(units >= 1 && standing.units + units <= kQuotaMax);
    const Micros ends = start_at(limit, standing.at) + span_of(limit);
    if (standing.units == 0) {
        window.base = window.total;
        window.first = 0;
        window.marks = 0;
        window.ends_us = ends.count();
    } else {
        forget(window, ring, standing.expired);
        if (!newest_is_current(window, limit, standing.at)) {
            assert(window.marks < ring.size());
            ring[(window.first + window.marks) % ring.size()] = Mark{window.total, window.newest};
            ++window.marks;
            const auto gap = (ends.count() - window.ends_us) / limit.precision.count();
            window.newest = static_cast<std::uint16_t>(window.newest + gap);
            window.ends_us = ends.count();
        }
    }
    window.total += static_cast<std::uint32_t>(units);
}

LimitVerdict told(const Limit& limit, const Standing& standing, Micros now, std::int64_t share,
                  std::int64_t taken) {
    LimitVerdict verdict;
    verdict.remaining = std::max<std::int64_t>(0, share - standing.units - taken);
    if (standing.units > 0) {
        verdict.next_unit = standing.next_free - now;
    } else if (taken > 0) {
        verdict.next_unit = start_at(limit, standing.at) + span_of(limit) - now;
    }
    return verdict;
}

}  // namespace tidegate::limit

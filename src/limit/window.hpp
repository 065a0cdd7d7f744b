// One limit's count for one identifier: what sliding_window and fixed_window are made of.
//
// The count is kept as running totals. Each sub-bucket that was used leaves a mark: the total of
// all units taken when it ended. What counts at a moment is then the difference of two totals,
// found by bisection, so that neither a denial nor a long idle time walks through expired
// sub-buckets, and asking changes nothing. lua/charge.lua keeps the same record in Redis.
//
// Pure: no clock, no allocation; whoever owns a Window supplies the room for its marks and the
// lock around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "limit/charge.hpp"
#include "limit/limit.hpp"

namespace tidegate::limit {

// The latest `now` that can be decided at (the year 2112): what is added to it stays below 2^53.
inline constexpr Micros kNowMax{std::int64_t{1} << 52};

// A sub-bucket that ended. Totals and labels wrap: only differences are ever used, and those are
// smaller than the type (a quota fits 32 bits, kBlocksMax + 1 sub-buckets fit 16).
struct Mark {
    std::uint32_t total;  // units taken up to its end
    std::uint16_t label;  // its position among the sub-buckets of this record
};

// What is counted. All zero: nothing.
struct Window {
    std::uint32_t id = 0;      // Limit::id
    std::uint32_t base = 0;    // the total before the oldest sub-bucket kept
    std::uint32_t total = 0;   // the total now
    std::uint16_t newest = 0;  // label of the newest sub-bucket, the one that has no mark yet
    std::uint16_t first = 0;   // where the oldest mark is in the ring
    std::uint16_t marks = 0;   // sub-buckets in use, older than the newest
    std::int64_t ends_us = 0;  // when the newest sub-bucket stops counting
};

// How a window stands at a moment.
struct Standing {
    std::int64_t units = 0;     // that count
    Micros at{0};               // the moment as this window sees it: its time never runs backwards
    Micros next_free{0};        // when the oldest sub-bucket that counts stops; 0 if none does
    std::uint16_t expired = 0;  // marks that count no more
};

// How long a sub-bucket counts from its beginning.
constexpr Micros span_of(const Limit& limit) {
    return limit.blocks * limit.precision;
}

// Looks without touching. `ring` is the room of the window's marks.
// Requires 0us <= now <= kNowMax.
Standing standing_at(const Window& window, std::span<const Mark> ring, const Limit& limit,
                     Micros now);

// When `needed` of the units that count will have stopped counting if nothing is taken.
// Requires 1 <= needed <= standing.units.
Micros frees_at(const Window& window, std::span<const Mark> ring, const Limit& limit,
                const Standing& standing, std::int64_t needed);

// How many marks the ring must have room for if units are taken now.
std::size_t marks_after_take(const Window& window, const Limit& limit, const Standing& standing);

// Takes `units` at standing.at and forgets what has expired. Requires units >= 1, units that keep
// the count within kQuotaMax, room for marks_after_take(), and a standing of this very window.
void take(Window& window, std::span<Mark> ring, const Limit& limit, const Standing& standing,
          std::int64_t units);

// What a client is told of the limit. `share` is the quota that holds here; `taken` is 0 for a
// request that is denied.
LimitVerdict told(const Limit& limit, const Standing& standing, Micros now, std::int64_t share,
                  std::int64_t taken);

}  // namespace tidegate::limit

// What is counted now: how the limits stand for one identifier, for people who want to know. Pure;
// what it says follows from the functions that decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "limit/charge.hpp"
#include "limit/gcra.hpp"
#include "limit/limit.hpp"

namespace tidegate::store {

using limit::Micros;

inline constexpr std::size_t kMomentsTold = 100;

// Times are from `now` on.
struct LimitCount {
    std::int64_t counted = 0;  // units; of a bucket rounded up; moments booked; slots that are held
    std::int64_t remaining = 0;         // units left, as clients see it
    std::optional<Micros> next_unit{};  // until one more is free; none: all are, or it is unknown
    std::optional<Micros> all_free{};   // until nothing counts any more; likewise
    // Whether a request of cost 1 would be denied, of schedule one that is meant for now; and for
    // how long if nothing else comes: kNever where it always is, none where it is unknown.
    bool denied = false;
    std::optional<Micros> denied_for{};
    // schedule: what is booked, the first of it; there may be more (see `counted`).
    std::vector<Micros> moments{};
    bool counted_all = true;  // false: more is booked than was counted

    bool operator==(const LimitCount&) const = default;
};

// A record of a limit that was not asked about: of another tier or configuration.
struct OtherCount {
    std::uint32_t id = 0;
    Micros all_free{0};  // at the latest

    bool operator==(const OtherCount&) const = default;
};

struct ItemCounts {
    std::vector<LimitCount> limits{};  // in the order of item.limits()
    std::vector<OtherCount> others{};

    bool operator==(const ItemCounts&) const = default;
};

struct Counts {
    Micros now{0};                    // of the store, since the epoch
    std::vector<ItemCounts> items{};  // in the order asked
};

// How a window stands: with `units`, the next of which is free at `next_free`, all at `all_free`;
// where one more does not pass it does at `passes_at`. The moments are looked at only where they
// have a meaning.
struct WindowStand {
    std::int64_t units = 0;
    Micros next_free{0};
    Micros all_free{0};
    Micros passes_at{0};
};
LimitCount count_of_window(const WindowStand& stand, std::int64_t share, Micros now);

LimitCount count_of_bucket(const limit::Flow& flow, limit::ExactTime backlog);

// `moments` in order; `at` is the earliest that a request may be meant for, at least `now`. Not
// `are_all`: later ones are missing.
LimitCount count_of_schedule(std::span<const std::int64_t> moments, bool are_all,
                             const limit::Limit& limit, std::int64_t share, Micros at, Micros now);

LimitCount count_of_slots(std::int64_t held, std::int64_t share);

}  // namespace tidegate::store

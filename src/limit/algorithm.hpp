// The algorithms, and how they differ: one row each. What the other rooms ask of an algorithm they
// ask of its row, or of the verbs of its class (verbs.hpp), and so do the scripts of its table in
// Lua: a new algorithm is a row, a class and a file of lua/. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidegate::limit {

// Bounds of what may be configured; with those of limit.hpp they keep every number of a script
// below 2^53.
inline constexpr std::int64_t kQuotaMax = 4'294'967'295;
// Of windows that count money: a billion dollars, in millionths. What is counted may be above the
// quota, and stays below 2^52.
inline constexpr std::int64_t kMoneyMax = 1'000'000'000'000'000;
inline constexpr std::int64_t kMoneyCountedMax = 4 * kMoneyMax;
inline constexpr std::int64_t kLogQuotaMax = 1'000;  // of a sliding_log: each unit is kept
inline constexpr std::int64_t kSlotsMax = 100'000;   // quota of a concurrency limit
// A look at a schedule in Redis reads the moments of two windows.
inline constexpr std::int64_t kScheduleQuotaMax = 2'000;

// Part of what is stored in Redis: numbers are never given to another.
enum class Algorithm : std::uint8_t {
    sliding_window,
    fixed_window,
    sliding_log,
    gcra,
    leaky_bucket,
    schedule,
    concurrency,
};

// What a store keeps of one limit for one identifier: the class that counts it (kinds.hpp). Part of
// what a process hands to the next one, so new ones come last.
enum class StateKind : std::uint8_t {
    windows,       // counts of sub-buckets (window.hpp)
    bucket,        // when it will be empty (gcra.hpp)
    log,           // as windows, with a sub-bucket for each microsecond
    moments,       // a set of accepted moments (schedule.hpp)
    slots,         // a set of requests in flight (concurrency.hpp)
    period,        // of a day, week or month (window.hpp); no algorithm has it alone
    wide_windows,  // as windows, of money; likewise
};
inline constexpr std::size_t kStateKinds = 7;

// Settings that not every algorithm has; a row holds their sum.
enum Setting : unsigned {
    kPer = 1,
    kPrecision = 2,
    kStrict = 4,
    kAnchor = 8,
    kBurst = 16,
    kMaxDelay = 32,
    kMoment = 64,  // `at`, `window`, `horizon` and `past`
    kCount = 128,
};

struct AlgorithmTraits {
    std::string_view name;       // in the configuration and in reports
    std::string_view synonym{};  // another name in the configuration
    std::string_view suffix{};   // of the name of a limit that the configuration does not name
    char letter;                 // in scripts; in upper case where denied requests count, too
    std::string_view lua;        // its file of lua/, which has the table of this letter
    StateKind state;
    unsigned settings;
    std::int64_t quota_min = 0;
    std::int64_t quota_max = kQuotaMax;
    std::uint8_t mark_bytes = 0;  // of a mark of a sub-bucket in Redis; 0: it has no sub-buckets
    bool has_fast_path = false;   // lua/fast_path.lua decides its plain limits
    bool asks_more = false;       // the script takes 16 bytes of it with each request
    bool has_set = false;    // Redis keeps a sorted set for it, apart from the packed value of the
                             // identifier
    bool has_slots = false;  // a request holds a slot until it ends
    bool has_moments = false;  // a request names the moment that it is meant for
    bool queues = false;       // holds a request until those before it have left
    bool settles = false;      // the end of a request gives something back, whatever its status
    bool time_frees = false;   // only time frees units: a denial holds until its time, and charges
                               // of one loop turn can share a command
    bool reports = false;      // counts made while Redis was away can be added there

    constexpr bool has(Setting setting) const { return (settings & setting) != 0; }
};

// In the order of Algorithm.
inline constexpr std::array<AlgorithmTraits, 7> kAlgorithms{{
    {.name = "sliding_window",
     .letter = 'w',
     .lua = "window",
     .state = StateKind::windows,
     .settings = kPer | kPrecision | kStrict | kCount,
     .mark_bytes = 6,
     .has_fast_path = true,
     .time_frees = true,
     .reports = true},
    {.name = "fixed_window",
     .suffix = "-fixed",
     .letter = 'w',
     .lua = "window",
     .state = StateKind::windows,
     .settings = kPer | kAnchor | kCount,
     .mark_bytes = 6,
     .has_fast_path = true,
     .time_frees = true,
     .reports = true},
    {.name = "sliding_log",
     .suffix = "-log",
     .letter = 'l',
     .lua = "window",
     .state = StateKind::log,
     .settings = kPer | kCount,
     .quota_max = kLogQuotaMax,
     .mark_bytes = 12,
     .time_frees = true,
     .reports = true},
    {.name = "gcra",
     .synonym = "token_bucket",
     .suffix = "-gcra",
     .letter = 'g',
     .lua = "bucket",
     .state = StateKind::bucket,
     .settings = kPer | kBurst | kCount,
     .quota_min = 1,
     .asks_more = true,
     .time_frees = true,
     .reports = true},
    {.name = "leaky_bucket",
     .suffix = "-leaky",
     .letter = 'k',
     .lua = "bucket",
     .state = StateKind::bucket,
     .settings = kPer | kBurst | kMaxDelay,
     .quota_min = 1,
     .asks_more = true,
     .queues = true,
     .settles = true,
     .reports = true},
    {.name = "schedule",
     .suffix = "-schedule",
     .letter = 's',
     .lua = "schedule",
     .state = StateKind::moments,
     .settings = kPer | kMoment,
     .quota_max = kScheduleQuotaMax,
     .asks_more = true,
     .has_set = true,
     .has_moments = true},
    {.name = "concurrency",
     .suffix = "concurrency",
     .letter = 'c',
     .lua = "slots",
     .state = StateKind::slots,
     .settings = 0,
     .quota_max = kSlotsMax,
     .asks_more = true,
     .has_set = true,
     .has_slots = true,
     .settles = true},
}};

constexpr const AlgorithmTraits& traits_of(Algorithm algorithm) {
    return kAlgorithms[static_cast<std::size_t>(algorithm)];
}

}  // namespace tidegate::limit

// A limit: so many units in such a time, counted in such a way. Immutable once made.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace tidegate::limit {

using Micros = std::chrono::microseconds;

enum class Algorithm : std::uint8_t { sliding_window, fixed_window };
enum class Anchor : std::uint8_t { clock, first_request };

// Bounds of what may be configured; together they keep every number of a script below 2^53.
inline constexpr std::int64_t kQuotaMax = 4'294'967'295;
inline constexpr std::int64_t kBlocksMax = 1'000;
inline constexpr Micros kDurationMin{1'000};
inline constexpr Micros kDurationMax = std::chrono::hours{24 * 366 * 10};

// What the configuration says of a limit.
struct LimitSpec {
    std::string name;  // empty: what the limit is, without its quota
    Algorithm algorithm = Algorithm::sliding_window;
    std::int64_t quota = 0;
    Micros duration{0};
    std::optional<Micros> precision;  // sliding_window only
    bool strict = false;              // sliding_window only
    Anchor anchor = Anchor::clock;    // fixed_window only
};

struct Limit {
    std::string name;
    Algorithm algorithm;
    Anchor anchor;
    bool strict;
    std::int64_t quota;   // 0 .. kQuotaMax
    Micros duration;      // kDurationMin .. kDurationMax
    Micros precision;     // width of a sub-bucket; the duration itself for fixed_window
    std::int64_t blocks;  // sub-buckets that count: 1 .. kBlocksMax (one more when strict)
    std::uint32_t id;     // names the record in the state; a hash of all but the quota
    bool named = false;   // the configuration gave the name
};

// Fills in what `spec` leaves open, or says in one sentence what is wrong and what would be right.
Result<Limit, std::string> make_limit(const LimitSpec& spec);

// The smallest whole-microsecond divisor of `duration` that is at least duration / 60 and 1 ms.
Micros default_precision(Micros duration);

}  // namespace tidegate::limit

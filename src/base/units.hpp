// Numbers as people write them: durations, sizes, rates. Pure; nothing here knows a locale.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace tidegate {

// parse_size() returns this for `unlimited`.
inline constexpr std::uint64_t kUnlimitedBytes = std::numeric_limits<std::uint64_t>::max();

// So many units in such a time.
struct Rate {
    std::int64_t quota = 0;
    std::chrono::microseconds per{0};

    bool operator==(const Rate&) const = default;
};

// So much of what a limit counts: whole units, or millionths of a dollar.
struct Amount {
    // NOLINTNEXTLINE(google-explicit-constructor): most amounts are plain units
    constexpr Amount(std::int64_t units = 0, bool in_money = false)
        : units(units), in_money(in_money) {}

    std::int64_t units;
    bool in_money;

    bool operator==(const Amount&) const = default;
};

// Writes a number of JSON: `120`, and of money dollars with six places, `0.000120`. Requires 0 or
// more. Returns the end of what it wrote.
inline constexpr std::size_t kAmountBytesMax = 24;
char* write_amount(Amount amount, char* out);
// The same as a text.
std::string shown_amount(Amount amount);
// Millionths as the shortest decimal: `1.25`. Requires 0 or more.
std::string shortest_decimal(std::int64_t millionths);

// Decimal digits only: no sign, no leading zero, no base, no exponent, no separator, no space.
// Returns nothing when `text` is anything else or the number does not fit.
std::optional<std::int64_t> parse_decimal(std::string_view text);

// The same with an optional fraction of at most `scale_digits` digits, times ten to the power of
// `scale_digits`: parse_fixed("1.5", 3) is 1500. Requires 0 <= scale_digits <= 9.
std::optional<std::int64_t> parse_fixed(std::string_view text, int scale_digits);

// `100ms`, `1.5s`, `15min` (or `15m`), `1h`, `1day` (or `1d`), `250us`: exact to the microsecond,
// never negative. An error is a sentence that says what would be right.
Result<std::chrono::microseconds, std::string> parse_duration(std::string_view text);

// `512`, `8k` and `8KiB` (both 8192), `1m`, `1MiB`, `1g`, `1GiB`, `unlimited`.
Result<std::uint64_t, std::string> parse_size(std::string_view text);

// Whether a text means months, which are no duration: `month`, `1month`, `months`, `mo`.
bool is_month(std::string_view unit);

// `10/s` (`/sec`, `/second`), `120/min` (`/m`, `/minute`), `240/h` (`/hour`), `5000/day` (`/d`),
// `20000/week`; each unit may have a number: `5/15min`, `10/2week`. An error says what to write for
// `10r/s` and `/month`.
Result<Rate, std::string> parse_rate(std::string_view text);

// The shortest exact spelling parse_duration() reads back: `1.5s` as `1500ms`, 3600 s as `1h`.
std::string format_duration(std::chrono::microseconds duration);

}  // namespace tidegate

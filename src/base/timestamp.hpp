// Moments of the steady clock, and moments as clients and people write them. The functions know no
// locale, and no time zone but offsets.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace tidegate {

// For deadlines and durations: this clock never steps.
using SteadyTime = std::chrono::steady_clock::time_point;

inline SteadyTime steady_now() {
    return std::chrono::steady_clock::now();
}

// RFC 3339 (`2026-11-21T10:00:00Z`, `2026-11-21T11:00:00.25+01:00`) or Unix seconds, with or
// without a fraction (`1795255200.25`): microseconds since the epoch, further digits cut off.
// Returns nothing for anything else, for a leap second, and before the epoch.
std::optional<std::chrono::microseconds> parse_timestamp(std::string_view text);

// `2026-11-21T10:00:00Z`; a fraction of six digits only where there is one, so that
// parse_timestamp() gives it back. Requires a moment from the epoch to the end of the year 9999.
std::string format_timestamp(std::chrono::microseconds moment);

// `2026-11-21`, in UTC; `the far future` from 250 years after the epoch on, as such a date means
// "never".
std::string format_day(std::chrono::system_clock::time_point moment);

// Appends `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7). Requires a moment from the
// epoch to the end of the year 9999.
void append_http_date(std::chrono::sys_seconds moment, std::string& out);

}  // namespace tidegate

// When days, weeks and months of UTC end, as the C library knows it: shares nothing with what it
// judges.
#pragma once

#include <cstdint>
#include <ctime>

#include "limit/limit.hpp"

namespace tidegate::test {

// The end of the day, week or month that holds `at`; both in microseconds since 1970.
inline std::int64_t period_end(limit::Anchor anchor, std::int64_t at) {
    constexpr std::int64_t kSecond = 1'000'000;
    const std::time_t time = at / kSecond - (at % kSecond < 0 ? 1 : 0);
    std::tm date{};
    gmtime_r(&time, &date);
    date.tm_hour = date.tm_min = date.tm_sec = 0;
    if (anchor == limit::Anchor::utc_day) {
        ++date.tm_mday;
    } else if (anchor == limit::Anchor::utc_month) {
        date.tm_mday = 1;
        ++date.tm_mon;
    } else {
        date.tm_mday += date.tm_wday == 0 ? 1 : 8 - date.tm_wday;  // to the next Monday
    }
    return timegm(&date) * kSecond;
}

}  // namespace tidegate::test

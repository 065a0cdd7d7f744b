// Files of time zones: whatever a file says, offsets are of less than 26 hours, and days of a zone
// that was read follow each other: each moment is in one day, and no day begins before the last.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "fuzz_check.hpp"
#include "limit/time_zone.hpp"
#include "limit/window.hpp"

namespace {

using tidegate::limit::Anchor;
using tidegate::limit::Limit;
using tidegate::limit::Micros;
using tidegate::limit::Period;
using tidegate::limit::period_at;
using tidegate::limit::TimeZone;

constexpr std::int64_t kDay = 86'400;
constexpr std::int64_t kLastDay = 52'125;  // of the year 2112, about where limits end

void check_days(const TimeZone& zone) {
    std::int64_t last = zone.begin_of(std::chrono::sys_days{});
    for (std::int64_t day = 1; day < kLastDay; day += day % 400 == 0 ? 3'000 : 1) {
        const std::chrono::sys_days date{std::chrono::days{day}};
        const std::int64_t begins = zone.begin_of(date);
        FUZZ_CHECK(begins >= last);
        FUZZ_CHECK(begins > day * kDay - 26 * 3'600 && begins < day * kDay + 52 * 3'600);
        FUZZ_CHECK(begins + zone.offset_at(begins) >= day * kDay);
        last = begins;
    }
}

void check_periods(const TimeZone& zone) {
    Limit limit;
    limit.zone = std::make_shared<const TimeZone>(zone);
    for (const Anchor anchor : {Anchor::day, Anchor::week, Anchor::month}) {
        limit.anchor = anchor;
        Micros at = std::chrono::hours{24 * 365};
        for (int i = 0; i < 500; ++i) {
            const Period period = period_at(limit, at);
            FUZZ_CHECK(period.begins <= at && at < period.ends);
            FUZZ_CHECK(period_at(limit, period.ends - Micros{1}) == period);
            at = period.ends;
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    FUZZ_CHECK(!tidegate::limit::is_time_zone_name(bytes) ||
               (bytes.find("..") == bytes.npos && bytes.front() != '/'));
    const auto zone = TimeZone::parse(bytes);
    if (!zone) {
        FUZZ_CHECK(!zone.error().empty());
        return 0;
    }
    check_days(*zone);
    check_periods(*zone);
    return 0;
}

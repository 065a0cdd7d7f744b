#include <chrono>

#include <doctest/doctest.h>

#include "base/timestamp.hpp"

namespace tidegate::base_timestamp_test {

using namespace std::chrono_literals;

TEST_CASE("timestamp: RFC 3339 with offsets and fractions") {
    CHECK(parse_timestamp("1970-01-01T00:00:00Z") == 0us);
    CHECK(parse_timestamp("2026-11-21T10:00:00Z") == 1'795'255'200s);
    CHECK(parse_timestamp("2026-11-21t10:00:00z") == 1'795'255'200s);
    CHECK(parse_timestamp("2026-11-21T11:00:00+01:00") == 1'795'255'200s);
    CHECK(parse_timestamp("2026-11-21T09:30:00-00:30") == 1'795'255'200s);
    CHECK(parse_timestamp("1970-01-01T00:00:01.5Z") == 1'500ms);
    CHECK(parse_timestamp("1970-01-01T00:00:01.0000019Z") == 1'000'001us);
    CHECK(parse_timestamp("2024-02-29T00:00:00Z") == 1'709'164'800s);
}

TEST_CASE("timestamp: Unix seconds with and without a fraction") {
    CHECK(parse_timestamp("0") == 0us);
    CHECK(parse_timestamp("1795255200") == 1'795'255'200s);
    CHECK(parse_timestamp("1795255200.25") == 1'795'255'200'250ms);
    CHECK(parse_timestamp("999999999999.9999999") == 999'999'999'999'999'999us);
}

TEST_CASE("timestamp: any other text is refused") {
    for (const char* bad : {"",
                            " 1",
                            "1 ",
                            "-1",
                            "+1",
                            "1e3",
                            "0x1",
                            "1.",
                            ".5",
                            "1,5",
                            "9999999999999",
                            "2026-11-21",
                            "2026-11-21T10:00:00",
                            "2026-11-21 10:00:00Z",
                            "2026-11-21T10:00Z",
                            "2026-13-01T00:00:00Z",
                            "2026-02-29T00:00:00Z",
                            "2026-00-10T00:00:00Z",
                            "2026-11-21T24:00:00Z",
                            "2026-11-21T10:60:00Z",
                            "2026-11-21T10:00:60Z",
                            "2026-11-21T10:00:00.Z",
                            "2026-11-21T10:00:00+1:00",
                            "2026-11-21T10:00:00+24:00",
                            "2026-11-21T10:00:00 01:00",
                            "2026-11-21T10:00:00ZZ",
                            "1969-12-31T23:59:59Z",
                            "1970-01-01T00:30:00+01:00"}) {
        CHECK_MESSAGE(!parse_timestamp(bad), bad);
    }
}

TEST_CASE("timestamp: a written timestamp is read back") {
    CHECK(format_timestamp(0us) == "1970-01-01T00:00:00Z");
    CHECK(format_timestamp(1'795'255'200s) == "2026-11-21T10:00:00Z");
    for (const auto moment : {1us, 999'999us, 1'709'164'799'999'999us, 4'102'444'800'000'001us}) {
        CHECK(parse_timestamp(format_timestamp(moment)) == moment);
    }
}

TEST_CASE("timestamp: a day is that of UTC; the largest time is written in words") {
    using std::chrono::system_clock;
    CHECK(format_day(system_clock::from_time_t(1'795'255'200)) == "2026-11-21");
    CHECK(format_day(system_clock::from_time_t(1'795'219'199)) == "2026-11-20");
    CHECK(format_day(system_clock::from_time_t(-1)) == "1970-01-01");
    CHECK(format_day(system_clock::time_point::max()) == "the far future");
}

TEST_CASE("timestamp: a date of HTTP names the day and the month, with two digits each") {
    const auto written = [](std::int64_t seconds) {
        std::string out = "a";
        append_http_date(std::chrono::sys_seconds{std::chrono::seconds{seconds}}, out);
        return out;
    };
    CHECK(written(784'111'777) == "aSun, 06 Nov 1994 08:49:37 GMT");
    CHECK(written(0) == "aThu, 01 Jan 1970 00:00:00 GMT");
    CHECK(written(1'709'208'000) == "aThu, 29 Feb 2024 12:00:00 GMT");
    CHECK(written(253'402'300'799) == "aFri, 31 Dec 9999 23:59:59 GMT");
}

}  // namespace tidegate::base_timestamp_test

#include <doctest/doctest.h>

#include "base/units.hpp"
#include "base/utf8.hpp"

namespace tidegate::base_units_test {

using std::chrono::microseconds;

namespace {

std::int64_t us(std::string_view text) {
    const auto duration = parse_duration(text);
    return duration ? duration->count() : -1;
}

std::int64_t bytes(std::string_view text) {
    const auto size = parse_size(text);
    return size ? static_cast<std::int64_t>(*size) : -2;
}

}  // namespace

TEST_CASE("units: a decimal number is digits without a leading zero") {
    CHECK(parse_decimal("0") == 0);
    CHECK(parse_decimal("10") == 10);
    CHECK(parse_decimal("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
    for (const char* text : {"", "017", "00", "0x10", "1_000", "1,000", "1e3", "1.0", "+1", "-1",
                             " 1", "1 ", "0b1", "0o17", "9223372036854775808", "one"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_decimal(text));
    }
    CHECK_FALSE(parse_decimal(std::string_view("1\0", 2)));
}

TEST_CASE("units: a fraction is scaled exactly") {
    CHECK(parse_fixed("1", 3) == 1'000);
    CHECK(parse_fixed("1.5", 3) == 1'500);
    CHECK(parse_fixed("0.001", 3) == 1);
    CHECK(parse_fixed("1.50000000", 3) == 1'500);  // zeros at the end say nothing
    CHECK(parse_fixed("7", 0) == 7);
    for (const char* text :
         {"", ".", ".5", "1.", "0.0001", "1.2.3", "01.5", "1.-5", "1.a", "9223372036854775.808"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_fixed(text, 3));
    }
}

TEST_CASE("units: a duration is a number and a unit") {
    CHECK(us("100ms") == 100'000);
    CHECK(us("1.5s") == 1'500'000);
    CHECK(us("0s") == 0);
    CHECK(us("15min") == 900'000'000);
    CHECK(us("1m") == 60'000'000);
    CHECK(us("1h") == 3'600'000'000);
    CHECK(us("1day") == 86'400'000'000);
    CHECK(us("1d") == 86'400'000'000);
    CHECK(us("250us") == 250);
    CHECK(us("0.000001s") == 1);
    CHECK(us("0.5day") == 43'200'000'000);
}

TEST_CASE("units: a text that is no duration is refused") {
    for (const char* text : {"",
                             "s",
                             "10",
                             "1.5",
                             "-1s",
                             "+1s",
                             "1 s",
                             " 1s",
                             "1s ",
                             "1S",
                             "1sec",
                             "1e3s",
                             "010s",
                             "1h30m",
                             "1..5s",
                             "0.0000001s",
                             "0.1us",
                             "1,5s",
                             "9223372036854775807day",
                             "200000000day",
                             "99999999999999999999s"}) {
        CAPTURE(text);
        CHECK(us(text) == -1);
    }
    CHECK(parse_duration("10").error() == "`10` has no unit: write `10s` or `10ms`");
    CHECK(parse_duration("minute").error() == "`minute` has no number: write `1min`");
    CHECK(parse_duration("day").error() == "`day` has no number: write `1day`");
    CHECK(parse_duration("week").error() == "`week` has no number: write `7day`");
    CHECK(parse_duration("0.1us").error() == "`0.1us` is finer than a microsecond");
}

TEST_CASE("units: the longest duration is read, one more overflows") {
    CHECK(us("106751991day") == 106'751'991LL * 86'400'000'000);
    CHECK(us("106751992day") == -1);
}

TEST_CASE("units: a size counts in powers of 1024") {
    CHECK(bytes("0") == 0);
    CHECK(bytes("512") == 512);
    CHECK(bytes("8k") == 8'192);
    CHECK(bytes("8K") == 8'192);
    CHECK(bytes("8KiB") == 8'192);
    CHECK(bytes("1MiB") == 1'048'576);
    CHECK(bytes("2g") == 2'147'483'648);
    CHECK(*parse_size("unlimited") == kUnlimitedBytes);
}

TEST_CASE("units: a size in decimal units is refused with the binary one") {
    CHECK(parse_size("10MB").error() == "`10MB` is not a size: write `10MiB`");
    CHECK(parse_size("8kb").error() == "`8kb` is not a size: write `8KiB`");
    CHECK(parse_size("1Gi").error() == "`1Gi` is not a size: write `1GiB`");
    CHECK(parse_size("1TB").error().starts_with("`1TB` is not a size such as"));
    CHECK(parse_size("MB").error().starts_with("`MB` is not a size such as"));
}

TEST_CASE("units: a text that is no size is refused") {
    for (const char* text : {"", "k", "8KB", "8kb", "8 k", "-8k", "1.5k", "08k", "Unlimited", "8kk",
                             "9007199254740992k", "99999999999999999999"}) {
        CAPTURE(text);
        CHECK(bytes(text) == -2);
    }
}

TEST_CASE("units: a rate is a quota and a time") {
    struct {
        const char* text;
        std::int64_t quota;
        std::int64_t per_us;
    } const cases[] = {{"10/s", 10, 1'000'000},
                       {"120/min", 120, 60'000'000},
                       {"240/h", 240, 3'600'000'000},
                       {"5000/day", 5'000, 86'400'000'000},
                       {"5/15min", 5, 900'000'000},
                       {"1/1.5s", 1, 1'500'000},
                       {"0/s", 0, 1'000'000},
                       {"7/sec", 7, 1'000'000},
                       {"7/second", 7, 1'000'000},
                       {"7/minute", 7, 60'000'000},
                       {"7/m", 7, 60'000'000},
                       {"7/hour", 7, 3'600'000'000},
                       {"7/d", 7, 86'400'000'000},
                       {"7/week", 7, 604'800'000'000},
                       {"1/30sec", 1, 30'000'000},
                       {"1/2second", 1, 2'000'000},
                       {"5/15minute", 5, 900'000'000},
                       {"5/15m", 5, 900'000'000},
                       {"5/6hour", 5, 21'600'000'000},
                       {"5/2d", 5, 172'800'000'000},
                       {"10/2week", 10, 1'209'600'000'000},
                       {"10/0.5week", 10, 302'400'000'000},
                       {"1/250ms", 1, 250'000},
                       {"1/1500us", 1, 1'500}};
    for (const auto& expected : cases) {
        CAPTURE(expected.text);
        const auto rate = parse_rate(expected.text);
        REQUIRE(rate.has_value());
        CHECK(rate->quota == expected.quota);
        CHECK(rate->per.count() == expected.per_us);
    }
}

TEST_CASE("units: a text that is no rate is refused") {
    for (const char* text :
         {"",       "/",        "10",        "10/",       "/s",        "-1/s",         "1.5/s",
          "10/0s",  "10/15",    "10 / s",    "10/s/s",    "010/s",     "10/fortnight", "1e3/s",
          "10/-1s", "10/0week", "10/02week", "10/.5week", "10/2.week", "10/1.2.3sec"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_rate(text).has_value());
    }
}

TEST_CASE("units: a text that is no rate gets advice on what to write") {
    const std::string like =
        " is not a rate such as `10/s`, `120/min`, `240/h`, `5000/day` or `5/15min`";
    const std::string month =
        " is not a rate, as months differ in length: write `{quota: 500, algorithm: fixed_window, "
        "anchor: utc_month}`";
    struct {
        const char* text;
        std::string error;
    } const cases[] = {
        {"10r/s", "`10r/s` is not a rate: write `10/s`"},
        {"10r/m", "`10r/m` is not a rate: write `10/min`"},
        {"10r/hour", "`10r/hour` is not a rate: write `10/hour`"},
        {"40k/min", "`40k/min` is not a rate: write `40000/min`"},
        {"40,000/min", "`40,000/min` is not a rate: write `40000/min`"},
        {"1,000,000/2h", "`1,000,000/2h` is not a rate: write `1000000/2h`"},
        {"1,5/s", "`1,5/s`" + like},
        {",000/s", "`,000/s`" + like},
        {"4,00k/s", "`4,00k/s`" + like},
        {"k/s", "`k/s`" + like},
        {"40k/x", "`40k/x`" + like},
        {"500/month", "`500/month`" + month},
        {"500/months", "`500/months`" + month},
        {"500/1month", "`500/1month`" + month},
        {"10rr/s", "`10rr/s`" + like},
        {"r/s", "`r/s`" + like},
        {"10r/fortnight", "`10r/fortnight`" + like},
        {"x/month", "`x/month`" + like},
        {"10/seconds", "`10/seconds`" + like},
        {"10/2weeks", "`10/2weeks`" + like},
        {"10/02week", "`10/02week`" + like},
        {"10/0week", "`10/0week` covers no time: write a duration above 0"},
        {"10/9000000000week", "`10/9000000000week` covers too long a time"},
        {"10/0.0000001sec", "`10/0.0000001sec` covers a time that is finer than a microsecond"}};
    for (const auto& expected : cases) {
        CAPTURE(expected.text);
        const auto rate = parse_rate(expected.text);
        REQUIRE_FALSE(rate.has_value());
        CHECK(rate.error() == expected.error);
    }
}

TEST_CASE("units: a duration is written as it is read") {
    for (const char* text : {"0s", "1us", "1500ms", "90s", "15min", "36h", "2day"}) {
        CAPTURE(text);
        CHECK(format_duration(*parse_duration(text)) == text);
    }
    CHECK(format_duration(microseconds{1'500'000}) == "1500ms");
    CHECK(format_duration(microseconds{3'600'000'000}) == "1h");
}

TEST_CASE("quote: a text from outside becomes one short line") {
    CHECK(quote("abc") == "`abc`");
    CHECK(quote("a\nb\x1b[31m\x7f") == "`a\\x0ab\\x1b[31m\\x7f`");
    CHECK(quote(std::string(60, 'x')) == "`" + std::string(60, 'x') + "`");
    CHECK(quote(std::string(61, 'x')) == "`" + std::string(60, 'x') + "...`");
}

TEST_CASE("quote: a character is not cut in two") {
    const std::string text = std::string(59, 'x') + "\xC3\xA9" + "y";
    CHECK(quote(text) == "`" + std::string(59, 'x') + "...`");
}

TEST_CASE("units: an amount of money has six places, and one of units none") {
    CHECK(shown_amount(0) == "0");
    CHECK(shown_amount(120) == "120");
    CHECK(shown_amount({0, true}) == "0.000000");
    CHECK(shown_amount({15, true}) == "0.000015");
    CHECK(shown_amount({2'500'000, true}) == "2.500000");
    CHECK(shown_amount({1'000'000'000'000'000, true}) == "1000000000.000000");
    CHECK(shown_amount(INT64_MAX).size() <= kAmountBytesMax);
    CHECK(shown_amount({INT64_MAX, true}) == "9223372036854.775807");
}

}  // namespace tidegate::base_units_test

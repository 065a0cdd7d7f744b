#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "doctor/examinations.hpp"

namespace tidegate::doctor::redis_thresholds_test {

namespace {

using namespace std::chrono_literals;
using std::chrono::system_clock;

const system_clock::time_point kNow = system_clock::from_time_t(1'795'255'200);  // 2026-11-21

template <class Judge>
Finding judged(Judge judge) {
    Findings findings("it");
    judge(findings);
    REQUIRE(findings.list().size() == 1);
    return findings.list().front();
}

// `age` is its time from its begin until now.
Finding certificate(system_clock::duration left, system_clock::duration age = 60 * 24h) {
    return judged([&](Findings& findings) {
        check_certificate("c", "its certificate", {kNow - age, kNow + left}, kNow, findings);
    });
}

Finding version(const std::string& text) {
    const auto parsed = parse_version(text);
    REQUIRE(parsed);
    return judged([&](Findings& findings) { check_version(*parsed, findings); });
}

Finding clock_off_by(microseconds offset, microseconds accuracy = 100us, bool local = false) {
    return judged([&](Findings& findings) { check_clock(offset, accuracy, local, findings); });
}

Finding latency(TripTimes times) {
    return judged([&](Findings& findings) { check_latency(200, times, 100ms, findings); });
}

}  // namespace

TEST_CASE("thresholds: a certificate warns two weeks before it expires, and is a fault after") {
    CHECK(certificate(15 * 24h).severity == Severity::ok);
    CHECK(certificate(15 * 24h).what == "its certificate is valid until 2026-12-06");
    CHECK(certificate(14 * 24h).severity == Severity::ok);
    CHECK(certificate(14 * 24h - 1s).severity == Severity::warning);
    CHECK(certificate(5 * 24h).what == "its certificate expires on 2026-11-26, in 5 days");
    CHECK(certificate(47h).what == "its certificate expires on 2026-11-23, in 47 hours");
    // One for six days is new with five left.
    CHECK(certificate(5 * 24h, 24h).severity == Severity::ok);
    CHECK(certificate(24h, 5 * 24h).severity == Severity::warning);
    CHECK(certificate(0s).severity == Severity::warning);
    CHECK(certificate(-1s).severity == Severity::fault);
    CHECK(certificate(system_clock::time_point::max() - kNow).severity == Severity::ok);
    CHECK(certificate(system_clock::time_point() - kNow).what ==
          "its certificate expired on 1970-01-01");
}

TEST_CASE("thresholds: versions are read as servers write them, and nothing else is one") {
    CHECK(parse_version("7.0.15")->minor == 0);
    CHECK(parse_version("6.2")->minor == 2);
    CHECK(parse_version("7.4.0-rc1")->major == 7);
    CHECK(parse_version("255.255.255")->major == 255);
    for (const char* none : {"", "7", ".", "7.", ".7", "x.y", "-7.0", "7.x", "99999999999999.0"}) {
        CAPTURE(none);
        CHECK_FALSE(parse_version(none));
    }
    CHECK(parse_version("7.0." + std::string(1'000, '1'))->text.size() == 32);
    CHECK(parse_version("7.0.15\x1b[2J")->text == "7.0.15");
    CHECK(parse_version("7.0\r\nfault")->text == "7.0");
    CHECK(parse_version("7.4.0-rc1+a_b \xc2\x9b")->text == "7.4.0-rc1+a_b");
}

TEST_CASE("thresholds: Redis 6 has everything, 5 lacks something, 4 is not supported") {
    CHECK(version("6.0.0").severity == Severity::ok);
    CHECK(version("5.0.14").severity == Severity::note);
    CHECK(version("4.0.14").severity == Severity::fault);
    CHECK(version("10.1").severity == Severity::ok);
}

TEST_CASE("thresholds: a clock is off only by more than the round trip can explain") {
    CHECK(clock_off_by(999'999us).severity == Severity::ok);
    CHECK(clock_off_by(1'000'101us).severity == Severity::warning);
    CHECK(clock_off_by(-1'000'101us).severity == Severity::warning);
    // It may be right; the check cannot know.
    CHECK(clock_off_by(1'500'000us, 600'000us).severity == Severity::ok);
    CHECK(clock_off_by(-2s).what == "its clock is 2.000 s behind ours (+/- 0.10 ms)");
    CHECK(clock_off_by(3s).what == "its clock is 3.000 s ahead of ours (+/- 0.10 ms)");
    CHECK(clock_off_by(3s, 0us, true).advice.find("clock: local") != std::string::npos);
}

TEST_CASE("thresholds: percentiles are times that occurred") {
    const TripTimes one = percentiles_of({7us});
    CHECK(one.p50 == 7us);
    CHECK(one.p99 == 7us);
    CHECK(one.max == 7us);
    std::vector<microseconds> hundred;
    for (int i = 100; i >= 1; --i) hundred.emplace_back(i);
    CHECK(percentiles_of(hundred).p50 == 50us);
    CHECK(percentiles_of(hundred).p99 == 99us);
    CHECK(percentiles_of(hundred).max == 100us);
    CHECK(percentiles_of({1us, 2us}).p50 == 1us);
    CHECK(percentiles_of({1us, 2us}).p99 == 2us);
}

TEST_CASE("thresholds: slow decisions warn before most of them miss the timeout") {
    CHECK(latency({1ms, 50ms, 500ms}).severity == Severity::ok);
    CHECK(latency({1ms, 51ms, 51ms}).severity == Severity::warning);
    CHECK(latency({100ms, 200ms, 200ms}).severity == Severity::warning);
    CHECK(latency({101ms, 200ms, 200ms}).severity == Severity::fault);
    CHECK(latency({1ms, 2ms, 3ms}).what ==
          "200 decisions: half within 1.00 ms, 99 % within 2.00 ms, the slowest 3.00 ms; the "
          "timeout is 100ms");
}

TEST_CASE("thresholds: sizes are written as people read them") {
    CHECK(size_text(0) == "0 bytes");
    CHECK(size_text(1'023) == "1023 bytes");
    CHECK(size_text(1'024) == "1.0 KiB");
    CHECK(size_text(1'572'864) == "1.5 MiB");
    CHECK(size_text(~std::uint64_t{0}) == "16777216.0 TiB");
}

}  // namespace tidegate::doctor::redis_thresholds_test

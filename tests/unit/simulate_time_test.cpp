// When the requests of a log came: lines that come late, and clocks that were set back.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "limit/time_zone.hpp"
#include "tzif.hpp"
#include "unit/simulate_world.hpp"

namespace tidegate::simulate::time_test {
namespace {

// A configuration with one route.
std::string config_of(const std::string& policies) {
    return "upstreams: {api: {servers: ['http://127.0.0.1:3000']}}\npolicies:\n" + policies +
           "routes: [{name: all, match: {path: '/**'}, upstream: api, policies: [one]}]\n";
}

TEST_CASE("simulation: lines of requests that last long count, if the window is as long") {
    // Tidegate's own lines have the time of the beginning, and are written at the end.
    std::string log;
    for (int i = 0; i < 20; ++i) {
        const std::string minute = i < 10 ? "0" + std::to_string(i) : std::to_string(i);
        log += "time=2026-11-29T10:" + minute + ":00Z path=/ client=10.0.0.1 method=GET\n";
        if (i < 5) continue;
        const std::string begun = i < 15 ? "0" + std::to_string(i - 5) : std::to_string(i - 5);
        log += "time=2026-11-29T10:" + begun + ":10Z path=/ client=10.0.0.1 method=GET\n";
    }
    const std::string config = config_of("  one: {key: [ip], limits: [1/30s]}\n");
    CHECK(Ran(config, {log}).doc.json["late"] == 15);
    const Ran ran(config, {log}, {.order_seconds = 600});
    CHECK(ran.doc.json["late"] == 0);
    CHECK(ran.doc.json["requests"] == 35);
    CHECK(ran.doc.json["limited"] == 15);
    CHECK(ran.doc.exit_code == 0);
    CHECK(std::is_sorted(ran.times.begin(), ran.times.end()));
}

// A line of HAProxy, whose times are those of the clocks, of a request that took `millis`.
std::string haproxy(const std::string& time, int millis = 7) {
    return "10.0.0.1:4711 [" + time + "] www be/s1 0/0/1/5/" + std::to_string(millis) +
           " 200 649 - - ---- 1/1/1/1/0 0/0 \"GET /a HTTP/1.1\"\n";
}

std::shared_ptr<const limit::TimeZone> berlin() {
    auto zone = limit::TimeZone::parse(test::berlin().bytes());
    REQUIRE(zone.has_value());
    return std::make_shared<const limit::TimeZone>(std::move(*zone));
}

TEST_CASE("simulation: an hour that the clocks show twice counts twice") {
    // At 3:00 of this Sunday in Berlin it is 2:00 again, and 1:00 of UTC.
    std::string log;
    for (const char* const hour : {"01", "02", "02", "03"}) {
        for (const char* const minute : {"00", "20", "40", "59"}) {
            log += haproxy("25/Oct/2026:" + std::string(hour) + ":" + minute + ":00.000");
        }
    }
    const std::string config = config_of("  one: {key: [ip], limits: [6/h]}\n");
    const Ran ran(config, {log}, {.zone = berlin()});
    CHECK(ran.doc.json["late"] == 0);
    CHECK(ran.doc.json["requests"] == 16);
    CHECK(ran.doc.json["limited"] == 0);
    CHECK(ran.doc.json["from"] == "2026-10-24T23:00:00Z");
    CHECK(ran.doc.json["to"] == "2026-10-25T02:59:00Z");
}

TEST_CASE("simulation: what HAProxy says at its start does not come when later requests came") {
    std::string log = "Proxy www started.\n";
    for (const char* const minute : {"00", "20", "40"}) {
        log += haproxy("29/Nov/2026:11:" + std::string(minute) + ":00.000");
    }
    log += "Proxy www stopped (cumulated conns: FE: 3, BE: 0).\n";
    const std::string config = config_of("  one: {key: [ip], limits: [6/h]}\n");
    const Ran ran(config, {log}, {.zone = berlin()});
    CHECK(ran.doc.json["late"] == 0);
    CHECK(ran.doc.json["requests"] == 3);
    CHECK(ran.doc.json["no_request"] == 1);
    CHECK(ran.doc.json["unread"] == 1);
    CHECK(ran.doc.json["from"] == "2026-11-29T10:00:00Z");
}

TEST_CASE("simulation: a line of a long request does not begin the second hour") {
    const std::string log =
        haproxy("25/Oct/2026:02:50:00.000") + haproxy("25/Oct/2026:02:10:00.000", 2'460'000) +
        haproxy("25/Oct/2026:02:52:00.000") + haproxy("25/Oct/2026:02:00:00.000") +
        haproxy("25/Oct/2026:02:55:00.000", 1'500'000) + haproxy("25/Oct/2026:02:21:00.000");
    const std::string config = config_of("  one: {key: [ip], limits: [60/h]}\n");
    const Ran ran(config, {log}, {.zone = berlin(), .order_seconds = 3'600});
    CHECK(ran.doc.json["late"] == 0);
    const auto at = [](int hour, int minute) {
        return Micros{std::chrono::sys_days{std::chrono::year{2026} / 10 / 25}.time_since_epoch() +
                      std::chrono::hours{hour} + std::chrono::minutes{minute}};
    };
    CHECK(ran.times ==
          std::vector<Micros>{at(0, 10), at(0, 50), at(0, 52), at(0, 55), at(1, 0), at(1, 21)});
}

TEST_CASE("simulation: without durations, the second hour is the one that is nearer") {
    const auto line = [](const std::string& time) {
        return "10.0.0.1 - - [25/Oct/2026:" + time + "] \"GET / HTTP/1.1\" 200 1\n";
    };
    const std::string config = config_of("  one: {key: [ip], limits: [60/h]}\n");
    const Ran ran(config,
                  {line("02:30:00") + line("02:10:00") + line("02:31:00") + line("02:58:00") +
                   line("02:01:00") + line("02:30:00")},
                  {.zone = berlin(), .order_seconds = 3'600});
    CHECK(ran.doc.json["late"] == 0);
    CHECK(ran.doc.json["from"] == "2026-10-25T00:10:00Z");
    CHECK(ran.doc.json["to"] == "2026-10-25T01:30:00Z");
}

}  // namespace
}  // namespace tidegate::simulate::time_test

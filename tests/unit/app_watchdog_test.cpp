#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "app/watchdog.hpp"

namespace tidegate::app::watchdog_test {
namespace {

using std::chrono::microseconds;

std::optional<std::string> half_a_minute(std::string_view name) {
    if (name == "WATCHDOG_USEC") return "30000000";
    return std::nullopt;
}

std::optional<std::string> for_17(std::string_view name) {
    if (name == "WATCHDOG_PID") return "17";
    return half_a_minute(name);
}

std::optional<std::string> malformed(std::string_view name) {
    return name == "WATCHDOG_USEC" ? std::optional<std::string>("30s") : std::nullopt;
}

std::optional<std::string> never(std::string_view name) {
    return name == "WATCHDOG_USEC" ? std::optional<std::string>("0") : std::nullopt;
}

bool look(LoopWatch& watch, const std::vector<LoopState>& loops) {
    return watch.look(loops);
}

}  // namespace

TEST_CASE("watchdog: the interval is that of the service manager, for the process it names") {
    CHECK(watchdog_interval(half_a_minute, 17) == microseconds{30'000'000});
    CHECK(watchdog_interval(for_17, 17) == microseconds{30'000'000});
    CHECK_FALSE(watchdog_interval(for_17, 18));
    CHECK_FALSE(watchdog_interval(malformed, 17));
    CHECK_FALSE(watchdog_interval(never, 17));
}

TEST_CASE("watchdog: one loop that stands still is enough to stop the notifications") {
    LoopWatch watch;
    CHECK_FALSE(look(watch, {{.turns = 0}, {.turns = 5}}));
    CHECK(look(watch, {{.turns = 1}, {.turns = 9}}));
    CHECK_FALSE(look(watch, {{.turns = 2}, {.turns = 9}}));
    CHECK_FALSE(look(watch, {{.turns = 2}, {.turns = 10}}));
    CHECK(look(watch, {{.turns = 3}, {.turns = 11}}));
}

TEST_CASE("watchdog: a loop that has left as it should is no fault") {
    LoopWatch watch;
    CHECK(look(watch, {{.turns = 1}, {.turns = 1}}));
    CHECK(look(watch, {{.turns = 2}, {.turns = 1, .has_left = true}}));
    CHECK(look(watch, {{.turns = 2, .has_left = true}, {.turns = 1, .has_left = true}}));
}

}  // namespace tidegate::app::watchdog_test

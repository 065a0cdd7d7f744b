#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/error_log.hpp"

namespace tidegate::telemetry::error_log_interval_test {

namespace {

using namespace std::chrono_literals;
using Time = RepeatedFailures::Time;

TEST_CASE("now and then: it is due the first time, and again once the span has passed") {
    LogInterval hourly{1h};
    const LogInterval::Time start{5s};
    CHECK(hourly.is_due(start));
    CHECK_FALSE(hourly.is_due(start));
    CHECK_FALSE(hourly.is_due(start + 1h - 1ns));
    CHECK(hourly.is_due(start + 1h));
    CHECK_FALSE(hourly.is_due(start + 2h - 1ns));
    CHECK(hourly.is_due(start + 5h));
}

TEST_CASE("now and then: of threads that ask at once, one logs") {
    LogInterval hourly{1h};
    std::atomic<int> told{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int k = 0; k < 1'000; ++k) told += hourly.is_due(LogInterval::Time{1h}) ? 1 : 0;
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(told == 1);
}

TEST_CASE("repeated failures: the first has a line, and then a line a minute has their number") {
    RepeatedFailures failures;
    const Time start{5s};
    CHECK(failures.note("connect a", start) == 1);
    for (int i = 1; i <= 30; ++i) CHECK(failures.note("connect a", start + i * 1s) == 0);
    CHECK(failures.note("connect b", start + 30s) == 1);
    CHECK(failures.note("connect a", start + 60s) == 31);
    CHECK(failures.note("connect a", start + 119s) == 0);
    CHECK(failures.note("connect a", start + 500s) == 2);
}

TEST_CASE(
    "repeated failures: a recovery is logged once, and only after a failure that was logged") {
    RepeatedFailures failures;
    const Time start{5s};
    CHECK_FALSE(failures.recovered("connect a"));
    CHECK(failures.note("connect a", start) == 1);
    CHECK(failures.recovered("connect a"));
    CHECK_FALSE(failures.recovered("connect a"));
    CHECK(failures.note("connect a", start + 1s) == 0);
    CHECK_FALSE(failures.recovered("connect a"));
    CHECK(failures.note("connect a", start + 60s) == 2);
    CHECK(failures.recovered("connect a"));
}

TEST_CASE("repeated failures: kinds beyond the bound take the place of the oldest") {
    RepeatedFailures failures;
    Time now{5s};
    for (std::size_t i = 0; i <= RepeatedFailures::kKindsMax; ++i) {
        now += 1s;
        CHECK(failures.note("connect " + std::to_string(i), now) == 1);
    }
    CHECK(failures.note("connect " + std::to_string(RepeatedFailures::kKindsMax), now) == 0);
    CHECK(failures.note("connect 1", Time{5s}) == 0);
    CHECK(failures.note("connect 0", now) == 1);
}

TEST_CASE("repeated failures: of threads that fail at once, one has the line, and all count") {
    RepeatedFailures failures;
    std::atomic<std::uint64_t> lines{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int k = 0; k < 1'000; ++k) lines += failures.note("a", Time{5s}) != 0 ? 1 : 0;
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(lines == 1);
    CHECK(failures.note("a", Time{5s} + 1min) == 4'000);
}

TEST_CASE("repeated failures: a line says how often, unless it was once") {
    CHECK(times_text(1).empty());
    CHECK(times_text(31) == " (31 times since the last such line)");
}

}  // namespace

}  // namespace tidegate::telemetry::error_log_interval_test

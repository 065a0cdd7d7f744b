#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/log_interval.hpp"

namespace tidegate::telemetry::log_interval_test {
namespace {

using namespace std::chrono_literals;

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

}  // namespace
}  // namespace tidegate::telemetry::log_interval_test

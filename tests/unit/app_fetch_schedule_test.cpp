#include <doctest/doctest.h>

#include "app/fetch_schedule.hpp"

namespace tidegate::app::fetch_schedule_test {
namespace {

using namespace std::chrono_literals;

// Some moment; only differences count.
constexpr SteadyTime kStart{1'000h};

// One whose fetch has just begun and ended at kStart.
FetchSchedule after_success(double luck = 0) {
    FetchSchedule schedule({});
    schedule.begin(kStart);
    schedule.succeeded(kStart, luck);
    return schedule;
}

TEST_CASE("fetch_schedule: the first fetch is due at once") {
    const FetchSchedule schedule({});
    CHECK(schedule.due(false) < kStart);
    CHECK(schedule.due(true) < kStart);
}

TEST_CASE("fetch_schedule: after a success the next is due in five minutes, or a tenth sooner") {
    CHECK(after_success(0).due(false) == kStart + 300s);
    CHECK(after_success(1).due(false) == kStart + 270s);
}

TEST_CASE("fetch_schedule: before the first success the pause doubles from a second to a minute") {
    FetchSchedule schedule({});
    SteadyTime time = kStart;
    for (const auto pause : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s, 60s}) {
        schedule.begin(time);
        schedule.failed(time, 0);
        CHECK(schedule.due(false) == time + pause);
        time += pause;
    }
    schedule.begin(time);
    schedule.succeeded(time, 0);
    CHECK(schedule.due(false) == time + 300s);
}

TEST_CASE("fetch_schedule: after a success a failure is repeated no sooner than a wanted fetch") {
    FetchSchedule schedule = after_success();
    SteadyTime time = kStart + 300s;
    for (const auto pause : {5s, 5s, 5s, 8s, 16s}) {
        schedule.begin(time);
        schedule.failed(time, 0);
        CHECK(schedule.due(false) == time + pause);
        time += pause;
    }
}

TEST_CASE("fetch_schedule: with luck a failure is repeated after half the pause") {
    FetchSchedule schedule({});
    schedule.begin(kStart);
    schedule.failed(kStart, 1);
    CHECK(schedule.due(false) == kStart + 500ms);
}

TEST_CASE("fetch_schedule: one that is wanted begins 5 s after the beginning of another") {
    FetchSchedule schedule = after_success();
    CHECK(schedule.due(true) == kStart + 5s);
    // However long that takes.
    schedule.begin(kStart + 40s);
    schedule.succeeded(kStart + 44s, 0);
    CHECK(schedule.due(true) == kStart + 45s);
}

TEST_CASE("fetch_schedule: a wanted fetch does not wait for the pause after failures to end") {
    FetchSchedule schedule({});
    for (int i = 0; i < 8; ++i) {
        schedule.begin(kStart);
        schedule.failed(kStart, 0);
    }
    CHECK(schedule.due(false) == kStart + 60s);
    CHECK(schedule.due(true) == kStart + 5s);
}

}  // namespace
}  // namespace tidegate::app::fetch_schedule_test

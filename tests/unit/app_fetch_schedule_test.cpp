#include <doctest/doctest.h>

#include "app/fetch_schedule.hpp"

namespace tidegate::app {
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
    CHECK(schedule.is_due(kStart, false));
    CHECK(schedule.may_be_wanted(kStart));
}

TEST_CASE("fetch_schedule: after a success the next is due in five minutes, or a tenth sooner") {
    CHECK_FALSE(after_success(0).is_due(kStart + 300s - 1ms, false));
    CHECK(after_success(0).is_due(kStart + 300s, false));
    CHECK_FALSE(after_success(1).is_due(kStart + 270s - 1ms, false));
    CHECK(after_success(1).is_due(kStart + 270s, false));
}

TEST_CASE("fetch_schedule: after failures the pause doubles from a second to a minute") {
    FetchSchedule schedule({});
    SteadyTime time = kStart;
    for (const auto pause : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s, 60s}) {
        schedule.begin(time);
        schedule.failed(time, 0);
        CHECK_FALSE(schedule.is_due(time + pause - 1ms, false));
        time += pause;
        CHECK(schedule.is_due(time, false));
    }
    schedule.begin(time);
    schedule.succeeded(time, 0);
    CHECK_FALSE(schedule.is_due(time + 60s, false));
    schedule.failed(time, 0);
    CHECK(schedule.is_due(time + 1s, false));
}

TEST_CASE("fetch_schedule: with luck a failure is repeated after half the pause") {
    FetchSchedule schedule({});
    schedule.begin(kStart);
    schedule.failed(kStart, 1);
    CHECK_FALSE(schedule.is_due(kStart + 499ms, false));
    CHECK(schedule.is_due(kStart + 500ms, false));
}

TEST_CASE("fetch_schedule: one that is wanted begins at once, but not within 30 s of another") {
    FetchSchedule schedule = after_success();
    CHECK_FALSE(schedule.is_due(kStart + 30s - 1ms, true));
    CHECK_FALSE(schedule.may_be_wanted(kStart + 30s - 1ms));
    CHECK(schedule.is_due(kStart + 30s, true));
    CHECK(schedule.may_be_wanted(kStart + 30s));
    CHECK_FALSE(schedule.is_due(kStart + 30s, false));
    // Counted from its beginning, however long it takes.
    schedule.begin(kStart + 40s);
    schedule.succeeded(kStart + 45s, 0);
    CHECK_FALSE(schedule.is_due(kStart + 70s - 1ms, true));
    CHECK(schedule.is_due(kStart + 70s, true));
}

TEST_CASE("fetch_schedule: after a failure wanting is in order, and does not hurry") {
    FetchSchedule schedule = after_success();
    schedule.begin(kStart + 300s);
    schedule.failed(kStart + 300s, 0);
    CHECK(schedule.may_be_wanted(kStart + 300s));
    CHECK_FALSE(schedule.is_due(kStart + 301s - 1ms, true));
}

}  // namespace
}  // namespace tidegate::app

#include <chrono>
#include <vector>

#include <doctest/doctest.h>

#include "limit/schedule.hpp"

namespace tidegate::limit::schedule_test {
namespace {

using namespace std::chrono_literals;

constexpr Micros kMidnight{1'700'006'400'000'000};

Limit schedule(std::int64_t quota, Micros duration, bool utc_day = false) {
    LimitSpec spec;
    spec.algorithm = Algorithm::schedule;
    spec.quota = quota;
    spec.duration = duration;
    spec.utc_day = utc_day;
    spec.horizon = 24h;
    return *make_limit(spec);
}

std::vector<std::int64_t> at(std::initializer_list<Micros> offsets) {
    std::vector<std::int64_t> moments;
    for (const Micros offset : offsets) moments.push_back((kMidnight + offset).count());
    return moments;
}

}  // namespace

TEST_CASE("schedule: both sides of a moment count, and exactly a duration apart is no conflict") {
    const Limit limit = schedule(1, 1min);
    const auto moments = at({0s});
    for (const Micros apart : {0us, 1us, 59'999'999us}) {
        CHECK(busiest(moments, limit, kMidnight + apart) == 1);
        CHECK(busiest(moments, limit, kMidnight - apart) == 1);
    }
    CHECK(busiest(moments, limit, kMidnight + 1min) == 0);
    CHECK(busiest(moments, limit, kMidnight - 1min) == 0);
}

TEST_CASE("schedule: moments on both sides count together only if a window holds them all") {
    const Limit limit = schedule(5, 1min);
    const auto moments = at({0s, 20s, 70s, 75s});
    CHECK(busiest(moments, limit, kMidnight + 40s) == 3);   // 20, 70, 75
    CHECK(busiest(moments, limit, kMidnight + 10s) == 2);   // 0 and 20
    CHECK(busiest(moments, limit, kMidnight + 130s) == 1);  // 75; 70 is just too far
    CHECK(busiest(moments, limit, kMidnight + 129s) == 2);
    CHECK(busiest(moments, limit, kMidnight + 135s) == 0);
}

TEST_CASE("schedule: several of one moment count each") {
    const auto moments = at({0s, 0s, 0s});
    CHECK(busiest(moments, schedule(3, 1min), kMidnight) == 3);
    CHECK(busiest(moments, schedule(3, 1min), kMidnight + 59s) == 3);
}

TEST_CASE("schedule: the earliest that fits skips all that is in the way, and no further") {
    const Limit limit = schedule(2, 1min);
    const auto moments = at({0s, 30s, 70s, 100s});
    CHECK(earliest_fit(moments, limit, 2, kMidnight + 10s, 1) == kMidnight + 160s - 30s);
    CHECK(earliest_fit(moments, limit, 2, kMidnight + 130s, 1) == kMidnight + 130s);
    CHECK(earliest_fit(moments, limit, 2, kMidnight + 130s, 2) == kMidnight + 160s);
    CHECK(earliest_fit(moments, limit, 2, kMidnight - 30s, 1) == kMidnight - 30s);
    CHECK(earliest_fit(moments, limit, 2, kMidnight, 3) == kNever);
    CHECK(earliest_fit({}, limit, 0, kMidnight, 1) == kNever);
}

TEST_CASE("schedule: midnight is no boundary, but for utc_day it is the only one") {
    const auto moments = at({-1us, -1us, 0us});
    CHECK(busiest(moments, schedule(9, 24h), kMidnight) == 3);
    CHECK(busiest(moments, schedule(9, 24h, true), kMidnight) == 1);
    CHECK(busiest(moments, schedule(9, 24h, true), kMidnight - 1us) == 2);
    CHECK(earliest_fit(moments, schedule(2, 24h, true), 2, kMidnight - 5h, 1) == kMidnight);
    CHECK(earliest_fit(moments, schedule(1, 24h, true), 1, kMidnight - 5h, 1) == kMidnight + 24h);
}

TEST_CASE("schedule: a moment that no later one can conflict with is past") {
    const auto moments = at({0s, 10s, 60s});
    CHECK(past(moments, schedule(5, 1min), kMidnight + 1min - 1us) == 0);
    CHECK(past(moments, schedule(5, 1min), kMidnight + 1min) == 1);
    CHECK(past(moments, schedule(5, 1min), kMidnight + 3min) == 3);
    CHECK(past(moments, schedule(5, 24h, true), kMidnight + 23h) == 0);
    CHECK(past(moments, schedule(5, 24h, true), kMidnight + 24h) == 3);
}

}  // namespace tidegate::limit::schedule_test

#include <array>
#include <chrono>
#include <vector>

#include <doctest/doctest.h>

#include "limit/window.hpp"

namespace tidegate::limit::window_test {
namespace {

using namespace std::chrono_literals;

Limit sliding(std::int64_t quota, Micros duration, Micros precision) {
    LimitSpec spec;
    spec.quota = quota;
    spec.duration = duration;
    spec.precision = precision;
    return *make_limit(spec);
}

constexpr Micros kBegin{1'700'000'000'000'000};

// A window with room enough for every mark it can need.
struct Counter {
    explicit Counter(const Limit& counted) : limit(counted), ring(limit.blocks) {}

    WindowStanding at(Micros now) const { return window.standing_at(ring, limit, now); }
    void take_at(Micros now, std::int64_t units) {
        const WindowStanding standing = at(now);
        REQUIRE(window.marks_after_take(ring, limit, standing) < ring.size() + 1);
        window.take(ring, limit, standing, units);
    }

    Limit limit;
    Window window;
    std::vector<Mark> ring;
};

}  // namespace

TEST_CASE("window: nothing is counted at first") {
    const Counter counter(sliding(5, 1s, 100ms));
    const WindowStanding standing = counter.at(kBegin);
    CHECK(standing.units == 0);
    CHECK(standing.at == kBegin);
    CHECK(verdict_of(counter.limit, standing, kBegin, 5, 0).remaining == 5);
    CHECK(verdict_of(counter.limit, standing, kBegin, 5, 0).next_unit == 0us);
}

TEST_CASE("window: units count until their sub-bucket leaves, to the microsecond") {
    Counter counter(sliding(5, 1s, 100ms));
    counter.take_at(kBegin + 50ms, 2);
    counter.take_at(kBegin + 150ms, 1);
    CHECK(counter.at(kBegin + 999'999us).units == 3);
    CHECK(counter.at(kBegin + 1s).units == 1);
    CHECK(counter.at(kBegin + 1'099'999us).units == 1);
    CHECK(counter.at(kBegin + 1'100ms).units == 0);
}

TEST_CASE("window: a look changes nothing, however late") {
    Counter counter(sliding(5, 1s, 100ms));
    counter.take_at(kBegin, 2);
    counter.take_at(kBegin + 500ms, 2);
    CHECK(counter.at(kBegin + 1h).units == 0);
    CHECK(counter.at(kBegin + 1'200ms).units == 2);
    CHECK(counter.at(kBegin + 600ms).units == 4);
}

TEST_CASE("window: time never runs backwards") {
    Counter counter(sliding(5, 1s, 100ms));
    counter.take_at(kBegin + 500ms, 1);
    const WindowStanding standing = counter.at(kBegin);
    CHECK(standing.at == kBegin + 500ms);
    CHECK(standing.units == 1);
    counter.take_at(kBegin, 1);
    CHECK(counter.window.marks == 0);  // into the newest sub-bucket, not before it
    CHECK(counter.at(kBegin + 1'499'999us).units == 2);
}

TEST_CASE("window: the time at which enough is free is that of the sub-bucket which reaches it") {
    Counter counter(sliding(10, 1s, 100ms));
    counter.take_at(kBegin, 1);
    counter.take_at(kBegin + 100ms, 3);
    counter.take_at(kBegin + 900ms, 2);
    const WindowStanding standing = counter.at(kBegin + 950ms);
    const auto frees = [&](std::int64_t needed) {
        return counter.window.frees_at(counter.ring, counter.limit, standing, needed) - kBegin;
    };
    CHECK(frees(1) == 1s);
    CHECK(frees(2) == 1'100ms);
    CHECK(frees(4) == 1'100ms);
    CHECK(frees(5) == 1'900ms);
    CHECK(frees(6) == 1'900ms);
}

TEST_CASE("window: the ring goes round and round and no mark is lost") {
    Counter counter(sliding(1'000, 1s, 100ms));
    for (int i = 0; i < 1'000; ++i) {
        counter.take_at(kBegin + i * 100ms, 1 + i % 3);
        std::int64_t expected = 0;
        for (int j = std::max(0, i - 9); j <= i; ++j) expected += 1 + j % 3;
        REQUIRE(counter.at(kBegin + i * 100ms).units == expected);
        REQUIRE(counter.window.marks <= 9);
    }
}

TEST_CASE("window: totals and labels that wrap around count right") {
    Counter counter(sliding(kQuotaMax, 1s, 1ms));
    counter.take_at(kBegin, kQuotaMax - 5);
    Micros now = kBegin + 999ms;
    counter.take_at(now, 5);
    for (int i = 0; i < 100; ++i) {
        now += 999ms;  // the label advances by 999 each time
        counter.take_at(now, 3'000'000'000);
        REQUIRE(counter.at(now).units == (i == 0 ? 3'000'000'005 : 3'000'000'000));
        now += 2s;
    }
}

TEST_CASE("window: one opened by its first request lasts from it, whatever the clock says") {
    LimitSpec spec;
    spec.quota = 3;
    spec.duration = 10s;
    spec.algorithm = Algorithm::fixed_window;
    spec.anchor = Anchor::first_request;
    Counter counter(*make_limit(spec));
    counter.take_at(kBegin + 7'777us, 1);
    counter.take_at(kBegin + 9s, 1);
    CHECK(counter.window.marks == 0);
    CHECK(counter.at(kBegin + 10s + 7'776us).units == 2);
    CHECK(counter.at(kBegin + 10s + 7'777us).units == 0);
}

TEST_CASE("window: units given back leave their sub-bucket, and an empty one leaves no trace") {
    Counter counter(sliding(10, 1s, 100ms));
    counter.take_at(kBegin, 1);
    counter.take_at(kBegin + 100ms, 3);
    counter.take_at(kBegin + 200ms, 2);
    const auto give = [&](Micros at, std::int64_t units, Micros now) {
        counter.window.give_back(counter.ring, counter.limit, at, units, now);
    };
    give(kBegin + 150ms, 1, kBegin + 300ms);
    CHECK(counter.at(kBegin + 300ms).units == 5);
    give(kBegin + 50ms, 7, kBegin + 300ms);  // never below zero
    CHECK(counter.at(kBegin + 300ms).units == 4);
    CHECK(counter.at(kBegin + 300ms).next_free == kBegin + 1'100ms);
    give(kBegin + 299ms, 2, kBegin + 300ms);  // the newest
    CHECK(counter.at(kBegin + 300ms).units == 2);
    CHECK(counter.at(kBegin).at == kBegin + 200ms);  // time stays where it was
    counter.take_at(kBegin + 500ms, 1);
    CHECK(counter.window.marks == 1);
    CHECK(counter.at(kBegin + 1'100ms).units == 1);
    give(kBegin + 300ms, 1, kBegin + 500ms);    // nothing was taken there
    give(kBegin + 100ms, 1, kBegin + 1'100ms);  // counts no more
    CHECK(counter.at(kBegin + 500ms).units == 3);
}

TEST_CASE("window: a log keeps each microsecond apart, and no more than deny by themselves") {
    LimitSpec spec;
    spec.algorithm = Algorithm::sliding_log;
    spec.quota = 3;
    spec.duration = 240h;
    const Limit limit = *make_limit(spec);
    Log log;
    std::vector<LogMark> ring(marks_max(limit));
    REQUIRE(ring.size() == kLogQuotaMax);
    const auto at = [&](Micros now) { return log.standing_at(ring, limit, now); };
    for (int i = 0; i < 1'100; ++i) {
        const Micros now = kBegin + i * 1min;
        log.take(ring, limit, at(now), 1);
    }
    CHECK(at(kBegin + 1'100min).units == kLogQuotaMax + 1);
    const WindowStanding later = at(kBegin + 240h + 1'096min);
    CHECK(later.units == 3);
    CHECK(later.next_free == kBegin + 240h + 1'097min);
    CHECK(at(kBegin + 240h + 1'097min - 1us).units == 3);
    CHECK(at(kBegin + 240h + 1'097min).units == 2);
    CHECK(at(kBegin + 240h + 1'099min).units == 0);
}

TEST_CASE("window: `remaining` is never below 0") {
    Counter counter(sliding(10, 1s, 100ms));
    counter.take_at(kBegin, 8);
    const WindowStanding standing = counter.at(kBegin);
    CHECK(verdict_of(counter.limit, standing, kBegin, 5, 0).remaining == 0);
    CHECK(verdict_of(counter.limit, standing, kBegin, 10, 1).remaining == 1);
    CHECK(verdict_of(counter.limit, standing, kBegin, 10, 1).next_unit == 1s);
}

}  // namespace tidegate::limit::window_test

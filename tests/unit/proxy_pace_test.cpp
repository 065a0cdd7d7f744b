#include <doctest/doctest.h>

#include "proxy/pace.hpp"

using namespace tidegate;
using namespace tidegate::proxy;
using namespace std::chrono_literals;

namespace {

constexpr PaceBounds kBounds{30s, 240, 1h};
const SteadyTime kStart = SteadyTime{} + 1h;

// A client that brings `bytes` at the end of each turn of `turn`, until its patience is over or
// `most` has passed; then how long that took.
std::chrono::nanoseconds lasts(const PaceBounds& bounds, std::uint64_t bytes,
                               std::chrono::milliseconds turn, std::chrono::nanoseconds most) {
    Pace pace;
    SteadyTime now = kStart;
    for (std::uint64_t moved = 0; now - kStart < most; moved += bytes) {
        pace.begin_turn(now, moved);
        const auto patience = pace.patience(bounds, now);
        if (patience < turn) return now - kStart + std::max(patience, 0ms);
        now += turn;
        pace.end_turn(now);
    }
    return most;
}

}  // namespace

TEST_CASE("pace: a message that begins may be silent for so long") {
    Pace pace;
    pace.begin_turn(kStart, 0);
    CHECK(pace.patience(kBounds, kStart) == 30s);
    CHECK(pace.patience({30s, 0, 0ms}, kStart) == 30s);
    CHECK(pace.patience({30s, 240, 10s}, kStart) == 10s);
}

TEST_CASE("pace: a byte a second is not enough, whatever the silence between") {
    // 30 s, and a second for each 240 bytes: t = 30 + t / 240.
    CHECK(lasts(kBounds, 1, 1s, 2h) > 30s);
    CHECK(lasts(kBounds, 1, 1s, 2h) < 31s);
    CHECK(lasts(kBounds, 120, 1s, 2h) > 59s);
    CHECK(lasts(kBounds, 120, 1s, 2h) < 61s);
    // Without a rate, it is.
    CHECK(lasts({30s, 0, 0ms}, 1, 1s, 2h) == 2h);
}

TEST_CASE("pace: who keeps up has the time that there is for one message, and no more") {
    CHECK(lasts(kBounds, 240, 1s, 2h) == 1h);
    CHECK(lasts({30s, 240, 0ms}, 240, 1s, 2h) == 2h);
    CHECK(lasts(kBounds, 1'000'000, 31s, 2h) == 30s);
}

TEST_CASE("pace: what came fast at first may be slow for the time it would have had") {
    Pace pace;
    pace.begin_turn(kStart, 24'000);  // a hundred seconds' worth
    pace.end_turn(kStart + 25s);
    pace.begin_turn(kStart + 25s, 24'000);
    CHECK(pace.patience(kBounds, kStart + 25s) == 30s);
    pace.end_turn(kStart + 120s);
    pace.begin_turn(kStart + 120s, 24'000);
    CHECK(pace.patience(kBounds, kStart + 120s) == 10s);
}

TEST_CASE("pace: time between turns is not the client's") {
    Pace pace;
    pace.begin_turn(kStart, 0);
    pace.end_turn(kStart + 5s);
    CHECK(pace.waited(kStart + 1h) == 5s);
    pace.begin_turn(kStart + 2h, 0);
    CHECK(pace.patience(kBounds, kStart + 2h) == 25s);
    CHECK(pace.waited(kStart + 2h + 3s) == 8s);
    CHECK(pace.lag(1, kStart + 2h + 3s) == 8s);
}

TEST_CASE("pace: no number of bytes makes the sums overflow") {
    Pace pace;
    pace.begin_turn(kStart, UINT64_MAX);
    pace.end_turn(kStart + 1s);
    pace.begin_turn(kStart + 1s, UINT64_MAX);
    CHECK(pace.patience({24h, 1, 24h}, kStart + 1s) == 24h - 1s);
    CHECK(pace.lag(1, kStart + 1s) < -8'760h);
}

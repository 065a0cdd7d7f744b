#include <doctest/doctest.h>

#include "upstream/transfer_rate.hpp"

namespace tidegate::upstream::transfer_rate_test {

using namespace std::chrono_literals;

namespace {

constexpr TransferBounds kBounds{30s, 240, 1h};
const SteadyTime kStart = SteadyTime{} + 1h;

// A client moves `bytes` at the end of each wait of `wait`. How long it may go on, at most `most`.
std::chrono::nanoseconds lasts(const TransferBounds& bounds, std::uint64_t bytes,
                               std::chrono::milliseconds wait, std::chrono::nanoseconds most) {
    TransferRate rate;
    SteadyTime now = kStart;
    for (std::uint64_t moved = 0; now - kStart < most; moved += bytes) {
        rate.begin_wait(now, moved);
        const auto left = rate.time_left(bounds, now);
        if (left < wait) return now - kStart + std::max(left, 0ms);
        now += wait;
        rate.end_wait(now);
    }
    return most;
}

}  // namespace

TEST_CASE("transfer_rate: the first wait may last as long as `idle`") {
    TransferRate rate;
    rate.begin_wait(kStart, 0);
    CHECK(rate.time_left(kBounds, kStart) == 30s);
    CHECK(rate.time_left({30s, 0, 0ms}, kStart) == 30s);
    CHECK(rate.time_left({30s, 240, 10s}, kStart) == 10s);
}

TEST_CASE("transfer_rate: a byte a second is too slow, however short the waits") {
    // 30 s, and a second for each 240 bytes: t = 30 + t / 240.
    CHECK(lasts(kBounds, 1, 1s, 2h) > 30s);
    CHECK(lasts(kBounds, 1, 1s, 2h) < 31s);
    CHECK(lasts(kBounds, 120, 1s, 2h) > 59s);
    CHECK(lasts(kBounds, 120, 1s, 2h) < 61s);
    // Without a rate, it is.
    CHECK(lasts({30s, 0, 0ms}, 1, 1s, 2h) == 2h);
}

TEST_CASE("transfer_rate: a client that keeps up has `total` for one message, and no more") {
    CHECK(lasts(kBounds, 240, 1s, 2h) == 1h);
    CHECK(lasts({30s, 240, 0ms}, 240, 1s, 2h) == 2h);
    CHECK(lasts(kBounds, 1'000'000, 31s, 2h) == 30s);
}

TEST_CASE("transfer_rate: a client that was fast may be slow for the time it gained") {
    TransferRate rate;
    rate.begin_wait(kStart, 24'000);  // a hundred seconds' worth
    rate.end_wait(kStart + 25s);
    rate.begin_wait(kStart + 25s, 24'000);
    CHECK(rate.time_left(kBounds, kStart + 25s) == 30s);
    rate.end_wait(kStart + 120s);
    rate.begin_wait(kStart + 120s, 24'000);
    CHECK(rate.time_left(kBounds, kStart + 120s) == 10s);
}

TEST_CASE("transfer_rate: time between waits does not count") {
    TransferRate rate;
    rate.begin_wait(kStart, 0);
    rate.end_wait(kStart + 5s);
    CHECK(rate.waited(kStart + 1h) == 5s);
    rate.begin_wait(kStart + 2h, 0);
    CHECK(rate.time_left(kBounds, kStart + 2h) == 25s);
    CHECK(rate.waited(kStart + 2h + 3s) == 8s);
    CHECK(rate.lag(1, kStart + 2h + 3s) == 8s);
}

TEST_CASE("transfer_rate: a client that is held back is not silent, but behind, and has `total`") {
    TransferRate rate;
    rate.begin_wait(kStart, 240);
    rate.let_go(kStart + 10s);  // has room
    rate.hold_back();
    CHECK(rate.is_waiting());
    CHECK(rate.held_back(kStart + 40s) == 30s);
    CHECK(rate.waited(kStart + 40s) == 40s);
    CHECK(rate.lag(1'024, kStart + 40s) > 39s);
    rate.let_go(kStart + 40s);
    CHECK(rate.time_left(kBounds, kStart + 40s) == 20s);
    CHECK(rate.time_left({30s, 240, 45s}, kStart + 40s) == 5s);
    CHECK(rate.time_left(kBounds, kStart + 60s) == 0s);
    // The next silence is another one, and the pace is that of the time with room.
    rate.end_wait(kStart + 60s);
    rate.begin_wait(kStart + 60s, 240);
    CHECK(rate.time_left({30s, 0, 1h}, kStart + 60s) == 30s);
    CHECK(rate.time_left(kBounds, kStart + 60s) == 1s);
    // The end of a wait lets the client go.
    rate.hold_back();
    rate.end_wait(kStart + 70s);
    CHECK_FALSE(rate.is_held_back());
    CHECK(rate.held_back(kStart + 1h) == 40s);
    CHECK(rate.waited(kStart + 1h) == 70s);
}

TEST_CASE("transfer_rate: a wait at whose end the client has no room was no silence") {
    TransferRate rate;
    rate.begin_wait(kStart, 0);
    CHECK(rate.time_left(kBounds, kStart + 30s) == 0s);
    rate.hold_back();
    rate.let_go(kStart + 31s);
    CHECK(rate.time_left(kBounds, kStart + 31s) == 30s);
    CHECK(rate.time_left({30s, 240, 31s}, kStart + 31s) == 0s);
}

TEST_CASE("transfer_rate: no number of bytes makes the sums overflow") {
    TransferRate rate;
    rate.begin_wait(kStart, UINT64_MAX);
    rate.end_wait(kStart + 1s);
    rate.begin_wait(kStart + 1s, UINT64_MAX);
    CHECK(rate.time_left({24h, 1, 24h}, kStart + 1s) == 24h - 1s);
    CHECK(rate.lag(1, kStart + 1s) < -8'760h);
}

}  // namespace tidegate::upstream::transfer_rate_test

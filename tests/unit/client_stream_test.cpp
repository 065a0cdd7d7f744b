#include <chrono>
#include <cstdint>

#include <doctest/doctest.h>

#include "client/stream.hpp"

namespace tidegate::client_stream_test {

using client::WritePace;
using namespace std::chrono_literals;

namespace {

const SteadyTime kStart = SteadyTime{} + 1h;
constexpr std::chrono::milliseconds kPatience{10'000};

}  // namespace

TEST_CASE("write pace: a client that takes nothing has its patience, and no longer") {
    WritePace pace;
    pace.begin_wait(kStart, 0);
    CHECK(pace.time_left(kPatience, kStart, 0) == 10s);
    CHECK(pace.time_left(kPatience, kStart + 4s, 0) == 6s);
    CHECK(pace.time_left(kPatience, kStart + 10s, 0) == 0s);
    CHECK(pace.time_left(kPatience, kStart + 11s, 0) == -1s);
}

TEST_CASE("write pace: a byte now and then begins nothing anew; four KiB in all do") {
    WritePace pace;
    pace.begin_wait(kStart, 0);
    for (int second = 1; second < 10; ++second) {
        CHECK(pace.time_left(kPatience, kStart + second * 1s, second) == 10s - second * 1s);
    }
    CHECK(pace.time_left(kPatience, kStart + 9s, WritePace::kBytesMin - 1) == 1s);
    CHECK(pace.time_left(kPatience, kStart + 9s, WritePace::kBytesMin) == 10s);
    CHECK(pace.time_left(kPatience, kStart + 19s, WritePace::kBytesMin + 4'095) == 0s);
}

TEST_CASE("write pace: a span goes on through short waits, while there is more") {
    WritePace pace;
    std::int64_t taken = 0;
    for (int i = 0; i < 10; ++i) {
        const SteadyTime begin = kStart + i * 1min;
        pace.begin_wait(begin, taken);
        CHECK(pace.time_left(kPatience, begin, taken) == 10s - i * 1s);
        pace.end_wait(begin + 1s);
        taken += 100;
    }
    pace.begin_wait(kStart + 1h, taken);
    CHECK(pace.time_left(kPatience, kStart + 1h, taken) == 0s);
}

TEST_CASE("write pace: a client that has taken all there is has all its time for what follows") {
    WritePace pace;
    for (int i = 0; i < 10; ++i) {
        const SteadyTime begin = kStart + i * 1min;
        pace.begin_wait(begin, i);
        CHECK(pace.time_left(kPatience, begin + 9s, i) == 1s);
        pace.end_wait(begin + 9s);
        pace.restart();
    }
}

TEST_CASE("write pace: what was taken while nothing waited counts as well") {
    WritePace pace;
    pace.begin_wait(kStart, 100);
    pace.end_wait(kStart + 9s);
    pace.begin_wait(kStart + 1min, 100 + WritePace::kBytesMin);
    CHECK(pace.time_left(kPatience, kStart + 1min, 100 + WritePace::kBytesMin) == 10s);
}

TEST_CASE("write pace: bytes that only frame others make the count negative, and no fault") {
    WritePace pace;
    pace.begin_wait(kStart, -16'000);
    CHECK(pace.time_left(kPatience, kStart + 9s, -13'000) == 1s);
    CHECK(pace.time_left(kPatience, kStart + 9s, -11'904) == 10s);
    pace.end_wait(kStart + 9s);
    // Another head was added meanwhile: nothing was taken.
    pace.begin_wait(kStart + 1min, -20'000);
    CHECK(pace.time_left(kPatience, kStart + 1min + 9s, -20'000) == 1s);
}

}  // namespace tidegate::client_stream_test

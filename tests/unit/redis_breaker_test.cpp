#include <atomic>
#include <chrono>
#include <memory>

#include <doctest/doctest.h>

#include "redis/breaker.hpp"

namespace tidegate::redis::breaker_test {
namespace {

using namespace std::chrono_literals;

const SteadyTime kStart{1h};

struct Rig {
    Rig() : Rig(Breaker::Options{}) {}
    explicit Rig(const Breaker::Options& options) : breaker(options) {}

    // A connection that is cut `after` it was made, and the pause before the next.
    milliseconds cut(SteadyTime made, bool answered, milliseconds after = 1ms) {
        breaker.on_connected(made);
        if (answered) breaker.on_answer();
        breaker.on_connection_lost();
        return breaker.pause_after_loss(made + after, random);
    }

    Breaker breaker;
    std::minstd_rand random;
};

}  // namespace

TEST_CASE("breaker: it is neither up nor down before the first attempt") {
    Rig rig;
    CHECK_FALSE(rig.breaker.is_up());
    CHECK_FALSE(rig.breaker.is_down());
    CHECK_FALSE(rig.breaker.on_connected(kStart));
    CHECK(rig.breaker.is_up());
}

TEST_CASE("breaker: it opens once, and a connection closes it") {
    Rig rig;
    CHECK(rig.breaker.open());
    CHECK_FALSE(rig.breaker.open());
    CHECK(rig.breaker.is_down());
    CHECK(rig.breaker.on_connected(kStart));
    CHECK(rig.breaker.is_up());
    // A connection that is back at once was never away.
    rig.breaker.on_connection_lost();
    CHECK_FALSE(rig.breaker.is_up());
    CHECK_FALSE(rig.breaker.is_down());
    CHECK_FALSE(rig.breaker.on_connected(kStart));
}

TEST_CASE("breaker: a lost connection does not close it") {
    Rig rig;
    rig.breaker.open();
    rig.breaker.on_connection_lost();
    CHECK(rig.breaker.is_down());
}

TEST_CASE("breaker: unanswered commands in a row open it, and an answer restarts the count") {
    Rig rig;
    rig.breaker.on_connected(kStart);
    rig.breaker.on_timeouts(4);
    CHECK_FALSE(rig.breaker.must_open());
    rig.breaker.on_answer();
    rig.breaker.on_timeouts(3);
    rig.breaker.on_timeouts(0);
    rig.breaker.on_timeouts(1);
    CHECK_FALSE(rig.breaker.must_open());
    rig.breaker.on_timeouts(1);
    CHECK(rig.breaker.must_open());
    CHECK(rig.breaker.unanswered_in_a_row() == 5);
    rig.breaker.open();
    CHECK_FALSE(rig.breaker.must_open());
    // Back, the count begins at zero.
    rig.breaker.on_connected(kStart);
    CHECK(rig.breaker.unanswered_in_a_row() == 0);
}

TEST_CASE("breaker: unanswered commands of all threads count, if one of its own is among them") {
    const Breaker::Options options;
    Rig one(options);
    Rig other(options);
    one.breaker.on_connected(kStart);
    other.breaker.on_connected(kStart);
    other.breaker.on_timeouts(4);
    CHECK_FALSE(one.breaker.must_open());
    one.breaker.on_timeouts(1);
    CHECK(one.breaker.must_open());
    CHECK(other.breaker.must_open());
    // An answer to either shows that Redis is well.
    other.breaker.on_answer();
    CHECK_FALSE(one.breaker.must_open());
}

TEST_CASE("breaker: the pauses between failed attempts grow up to the longest, and are jittered") {
    Rig rig;
    milliseconds longest{50};
    for (int i = 0; i < 10; ++i) {
        const milliseconds pause = rig.breaker.pause_after_failure(rig.random);
        CHECK(pause >= longest / 2);
        CHECK(pause <= longest);
        longest = std::min(longest * 2, milliseconds{1'000});
    }
    rig.breaker.reset_pauses();
    CHECK(rig.breaker.pause_after_failure(rig.random) <= 50ms);
}

TEST_CASE("breaker: a pause that is as long as a command may wait refuses commands") {
    Rig rig;
    CHECK(rig.breaker.outlasts_commands(100ms));
    CHECK_FALSE(rig.breaker.outlasts_commands(99ms));
}

TEST_CASE("breaker: connections that are cut are made again at once, so many a second") {
    Rig rig;
    for (int i = 0; i < Breaker::kReconnects; ++i) CHECK(rig.cut(kStart, true) == 0ms);
    CHECK(rig.cut(kStart, true) >= 25ms);
    CHECK(rig.cut(kStart + 190ms, true) >= 25ms);
    CHECK(rig.cut(kStart + 200ms, true) == 0ms);
    CHECK(rig.cut(kStart + 200ms, true) >= 25ms);
    for (int i = 0; i < Breaker::kReconnects; ++i) CHECK(rig.cut(kStart + 2s, true) == 0ms);
    CHECK(rig.cut(kStart + 2s, true) >= 25ms);
}

TEST_CASE("breaker: two cuts a second never cost a pause") {
    Rig rig;
    for (int i = 0; i < 100; ++i) CHECK(rig.cut(kStart + i * 500ms, true) == 0ms);
}

TEST_CASE(
    "breaker: a server that closes each connection without an answer is tried less and less") {
    Rig rig;
    for (int i = 0; i < Breaker::kReconnects; ++i) rig.cut(kStart, false);
    CHECK(rig.cut(kStart, false) <= 50ms);
    CHECK(rig.cut(kStart, false) >= 50ms);
    CHECK(rig.cut(kStart, false) >= 100ms);
    // One that answered, or lasted, is tried soon again.
    CHECK(rig.cut(kStart, true) <= 50ms);
    rig.cut(kStart, false);
    CHECK(rig.cut(kStart, false, 1s) == 0ms);
    CHECK(rig.cut(kStart, false) <= 50ms);
}

TEST_CASE("breaker: a connection that is given up for its silence is not made again at once") {
    Rig rig;
    rig.breaker.on_connected(kStart);
    rig.breaker.on_answer();
    rig.breaker.open();
    CHECK(rig.breaker.pause_after_loss(kStart + 1ms, rig.random) >= 25ms);
    rig.breaker.on_connected(kStart);
    rig.breaker.open();
    CHECK(rig.breaker.pause_after_loss(kStart + 1s, rig.random) == 0ms);
}

}  // namespace tidegate::redis::breaker_test

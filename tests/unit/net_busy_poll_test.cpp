#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "net/busy_poll.hpp"

namespace tidegate::net_busy_poll_test {
namespace {

using std::chrono::microseconds;

// Tests that must not depend on it never come to its end.
constexpr microseconds kForever = std::chrono::hours{1};

// A loop with something to wait for.
struct World {
    asio::io_context io;
    asio::executor_work_guard<Executor> work{io.get_executor()};
    int ran = 0;

    void post() {
        asio::post(io, [this] { ++ran; });
    }
};

TEST_CASE("busy_poll: all that is ready runs") {
    World world;
    world.post();
    world.post();
    CHECK(poll_for(world.io, kForever));
    CHECK(world.ran == 2);
}

TEST_CASE("busy_poll: what is ready runs without patience, too") {
    World world;
    world.post();
    CHECK(poll_for(world.io, microseconds{0}));
    CHECK(world.ran == 1);
}

TEST_CASE("busy_poll: what comes meanwhile from another thread runs") {
    World world;
    std::thread other([&] { world.post(); });
    CHECK(poll_for(world.io, kForever));
    CHECK(world.ran == 1);
    other.join();
}

TEST_CASE("busy_poll: nothing ran when the patience has ended") {
    World world;
    CHECK_FALSE(poll_for(world.io, microseconds{1}));
    CHECK_FALSE(world.io.stopped());
    // The loop goes on as before.
    world.post();
    CHECK(world.io.run_one() == 1);
}

TEST_CASE("busy_poll: poll_for() returns at once from a loop without work") {
    World world;
    world.work.reset();
    CHECK_FALSE(poll_for(world.io, kForever));
    CHECK(world.io.stopped());
}

TEST_CASE("busy_poll: the last handler ends the loop") {
    World world;
    world.post();
    world.work.reset();
    CHECK(poll_for(world.io, kForever));
    CHECK(world.io.stopped());
}

}  // namespace
}  // namespace tidegate::net_busy_poll_test

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "client/handshake_turns.hpp"
#include "net/asio.hpp"

namespace tidegate::client_handshake_turns_test {

using client::HandshakeTurns;

namespace {

// Makes a step as soon as it may, and then ends.
struct Stepper {
    Stepper(const Executor& executor, char its_name)
        : wakeup(executor), place(wakeup), name(its_name) {}

    Task<> run(HandshakeTurns& turns, std::string& order) {
        while (!turns.may_step(place)) co_await wakeup.wait();
        order += name;
    }

    Wakeup wakeup;
    HandshakeTurns::Place place;
    char name;
};

struct World {
    // Handshakes that are ready now; `names` has a letter for each.
    void begin(const std::string& names) {
        for (const char name : names) {
            steppers.push_back(std::make_unique<Stepper>(io.get_executor(), name));
            spawn_vital(io.get_executor(), steppers.back()->run(turns, order));
        }
    }
    // A turn in which they become ready. Only inside the loop.
    void run_turn(const std::string& names = "") {
        turn.run([&] { begin(names); });
    }
    template <class Events>
    void in_loop(Events events) {
        asio::post(io, events);
        io.restart();
        while (io.poll() > 0) {
        }
    }

    asio::io_context io{1};
    Turn& turn = Turn::of(io.get_executor());
    HandshakeTurns turns{io.get_executor()};
    std::string order;
    std::vector<std::unique_ptr<Stepper>> steppers;
};

}  // namespace

TEST_CASE("handshake_turns: a turn takes eight steps, and the next ones the rest, in their order") {
    World world;
    world.in_loop([&] {
        world.run_turn("abcdefghijklmnopqrst");
        CHECK(world.order == "abcdefgh");
        world.run_turn();
        CHECK(world.order == "abcdefghijklmnop");
        world.run_turn();
        CHECK(world.order == "abcdefghijklmnopqrst");
    });
}

TEST_CASE("handshake_turns: a later handshake does not overtake the queue") {
    World world;
    world.in_loop([&] {
        world.run_turn("abcdefghijkl");
        world.turn.run([&] {
            world.begin("XY");
            CHECK(world.order == "abcdefgh");
        });
        CHECK(world.order == "abcdefghijklXY");
    });
}

TEST_CASE("handshake_turns: turns with few handshakes make none wait") {
    World world;
    world.in_loop([&] {
        for (const std::string names : {"abcde", "fghijklm", "nop"}) {
            world.order.clear();
            world.run_turn(names);
            CHECK(world.order == names);
        }
    });
}

TEST_CASE("handshake_turns: what is in the queue goes on by itself, outside of turns, too") {
    World world;
    world.in_loop([&] {
        world.begin("abcdefghij");
        CHECK(world.order == "abcdefgh");
    });
    CHECK(world.order == "abcdefghij");
}

TEST_CASE("handshake_turns: a handshake that is gone delays no other") {
    World world;
    world.in_loop([&] {
        world.run_turn("abcdefghijk");
        world.steppers.erase(world.steppers.begin() + 8, world.steppers.begin() + 10);
        world.run_turn();
        CHECK(world.order == "abcdefghk");
    });
}

}  // namespace tidegate::client_handshake_turns_test

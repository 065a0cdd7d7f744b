#include <string>

#include <doctest/doctest.h>

#include "base/turn.hpp"

namespace tidegate {
namespace {

struct World {
    std::string after_poll() {
        io.restart();
        io.poll();
        return notes;
    }

    std::string notes;
    asio::io_context io{1};
    Turn& turn = Turn::of(io.get_executor());
};

struct Noting final : Turn::Duty {
    Noting(World& its_world, char its_name) : world(its_world), name(its_name) {}

    void end_of_turn() override {
        world.notes += name;
        if (again) {
            again = false;
            world.turn.add(*this);
        }
    }

    World& world;
    char name;
    bool again = false;
};

TEST_CASE("turn: what an event leaves to do is done when the event is over, in its order, once") {
    World world;
    Noting a(world, 'a');
    Noting b(world, 'b');
    world.turn.run([&] {
        world.turn.add(b);
        world.turn.add(a);
        world.turn.add(b);
        world.notes += '.';
    });
    CHECK(world.notes == ".ba");
    CHECK(world.after_poll() == ".ba");
}

TEST_CASE("turn: outside of any, the loop makes one") {
    World world;
    Noting a(world, 'a');
    Noting b(world, 'b');
    world.turn.add(a);
    world.turn.add(b);
    CHECK(world.notes.empty());
    CHECK(world.after_poll() == "ab");
    world.turn.add(a);
    CHECK(world.after_poll() == "aba");
}

TEST_CASE("turn: what was left before an event is done at its end, and not again") {
    World world;
    Noting a(world, 'a');
    world.turn.add(a);
    world.turn.run([] {});
    CHECK(world.notes == "a");
    CHECK(world.after_poll() == "a");
}

TEST_CASE("turn: a duty that is added while duties are done waits for the next turn") {
    World world;
    Noting a(world, 'a');
    Noting b(world, 'b');
    a.again = true;
    world.turn.run([&] {
        world.turn.add(a);
        world.turn.add(b);
    });
    CHECK(world.notes == "ab");
    CHECK(world.after_poll() == "aba");
}

TEST_CASE("turn: a duty that is gone is not done") {
    World world;
    Noting a(world, 'a');
    {
        Noting b(world, 'b');
        world.turn.add(b);
        world.turn.add(a);
    }
    CHECK(world.after_poll() == "a");
}

TEST_CASE("turn: a loop that ends does nothing more") {
    std::string notes;
    {
        World world;
        Noting a(world, 'a');
        world.turn.add(a);
        notes = world.notes;
    }
    CHECK(notes.empty());
}

TEST_CASE("turn: each loop has its own") {
    World one;
    World other;
    Noting a(one, 'a');
    one.turn.run([&] {
        CHECK(&one.turn != &other.turn);
        one.turn.add(a);
        other.turn.run([] {});
        CHECK(one.notes.empty());
    });
    CHECK(one.notes == "a");
}

}  // namespace
}  // namespace tidegate

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "net/turn.hpp"

namespace tidegate::net_turn_test {
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

    void end_of_turn() noexcept override {
        world.notes += name;
        if (destroys != nullptr) *destroys = nullptr;
        if (again) {
            again = false;
            world.turn.add(*this);
        }
    }

    World& world;
    char name;
    bool again = false;
    std::unique_ptr<Noting>* destroys = nullptr;
};

TEST_CASE("turn: duties of an event are done when the event is over, in order, once") {
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
    // Nothing was posted for it either.
    CHECK(world.io.poll() == 0);
    CHECK(world.notes == ".ba");
}

TEST_CASE("turn: outside of a turn the loop makes one") {
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

TEST_CASE("turn: duties from before an event are done at its end, and not again") {
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

TEST_CASE("turn: a duty that is gone is not done, also if another one of the turn destroyed it") {
    World world;
    Noting a(world, 'a');
    auto b = std::make_unique<Noting>(world, 'b');
    world.turn.add(*b);
    world.turn.add(a);
    SUBCASE("before the turn") {
        b = nullptr;
    }
    SUBCASE("in it") {
        b = nullptr;
        b = std::make_unique<Noting>(world, 'b');
        world.turn.add(*b);
        a.destroys = &b;
    }
    CHECK(world.after_poll() == "a");
}

TEST_CASE("turn: a loop that ends does no duties, and drops them") {
    std::string notes;
    struct Quiet final : Turn::Duty {
        explicit Quiet(std::string& its_notes) : notes(its_notes) {}
        void end_of_turn() noexcept override { notes += 'q'; }
        std::string& notes;
    } quiet(notes);
    {
        World world;
        world.turn.add(quiet);
        CHECK(quiet.is_linked());
    }
    CHECK_FALSE(quiet.is_linked());
    CHECK(notes.empty());
}

TEST_CASE("turn: the source reports its events before duties are done") {
    World world;
    struct News final : Turn::Source {
        explicit News(World& its_world) : world(its_world) {}
        void tell() noexcept override { world.notes += '!'; }
        World& world;
    } news(world);
    Noting a(world, 'a');
    world.turn.set_source(&news);
    world.turn.run([&] {
        world.turn.add(a);
        world.notes += '.';
    });
    CHECK(world.notes == ".!a");
    // Also where a duty was added outside of any turn.
    world.turn.add(a);
    CHECK(world.after_poll() == ".!a!a");
    world.turn.set_source(nullptr);
    world.turn.run([] {});
    CHECK(world.notes == ".!a!a");
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
}  // namespace tidegate::net_turn_test

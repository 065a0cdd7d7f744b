#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "net/wakeup.hpp"

namespace tidegate::net_wakeup_test {

namespace {

struct TurnWorld {
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
    Noting(TurnWorld& its_world, char its_name) : world(its_world), name(its_name) {}

    void end_of_turn() noexcept override {
        world.notes += name;
        if (destroys != nullptr) *destroys = nullptr;
        if (again) {
            again = false;
            world.turn.add(*this);
        }
    }

    TurnWorld& world;
    char name;
    bool again = false;
    std::unique_ptr<Noting>* destroys = nullptr;
};

TEST_CASE("turn: duties of an event are done when the event is over, in order, once") {
    TurnWorld world;
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
    TurnWorld world;
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
    TurnWorld world;
    Noting a(world, 'a');
    world.turn.add(a);
    world.turn.run([] {});
    CHECK(world.notes == "a");
    CHECK(world.after_poll() == "a");
}

TEST_CASE("turn: a duty that is added while duties are done waits for the next turn") {
    TurnWorld world;
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
    TurnWorld world;
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
        TurnWorld world;
        world.turn.add(quiet);
        CHECK(quiet.is_linked());
    }
    CHECK_FALSE(quiet.is_linked());
    CHECK(notes.empty());
}

TEST_CASE("turn: the source reports its events before duties are done") {
    TurnWorld world;
    struct News final : Turn::Source {
        explicit News(TurnWorld& its_world) : world(its_world) {}
        void deliver() noexcept override { world.notes += '!'; }
        TurnWorld& world;
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
    TurnWorld one;
    TurnWorld other;
    Noting a(one, 'a');
    one.turn.run([&] {
        CHECK(&one.turn != &other.turn);
        one.turn.add(a);
        other.turn.run([] {});
        CHECK(one.notes.empty());
    });
    CHECK(one.notes == "a");
}

// Sleeps as often as the test says, and notes each time it was woken.
Task<> sleep_and_note(std::shared_ptr<Wakeup> wakeup, char name, int times, std::string& notes) {
    for (int i = 0; i < times; ++i) {
        co_await wakeup->wait();
        notes += name;
    }
}

struct World {
    std::shared_ptr<Wakeup> sleeper(char name, int times = 1) {
        auto wakeup = std::make_shared<Wakeup>(io.get_executor());
        spawn_vital(io.get_executor(), sleep_and_note(wakeup, name, times, notes));
        io.poll();  // to sleep
        return wakeup;
    }
    std::string after_poll() {
        io.restart();
        io.poll();
        return notes;
    }

    std::string notes;
    asio::io_context io{1};
};

TEST_CASE("wakeup: a sleeper that is woken later runs from the loop, in the order of waking") {
    World world;
    const auto a = world.sleeper('a');
    const auto b = world.sleeper('b');
    b->wake_later();
    a->wake_later();
    CHECK(world.notes.empty());
    CHECK(world.after_poll() == "ba");
}

TEST_CASE("wakeup: in a turn of the loop, a sleeper that is woken later runs at its end") {
    World world;
    const auto a = world.sleeper('a', 2);
    Turn::of(world.io.get_executor()).run([&] {
        a->wake_later();
        world.notes += '.';
    });
    CHECK(world.notes == ".a");
    CHECK(world.io.poll() == 0);
    // A sleeper that is woken while the turn ends waits for the next one.
    const auto b = world.sleeper('b');
    const auto wake = [](std::shared_ptr<Wakeup> mine, std::shared_ptr<Wakeup> other) -> Task<> {
        co_await mine->wait();
        other->wake_later();
    };
    const auto waker = std::make_shared<Wakeup>(world.io.get_executor());
    spawn_vital(world.io.get_executor(), wake(waker, b));
    world.after_poll();  // to sleep
    Turn::of(world.io.get_executor()).run([&] { waker->wake_later(); });
    CHECK(world.notes == ".a");
    CHECK(world.after_poll() == ".ab");
    a->wake_now();
    CHECK(world.notes == ".aba");
}

TEST_CASE("wakeup: waking a sleeper twice is waking it once") {
    World world;
    const auto a = world.sleeper('a', 2);
    a->wake_later();
    a->wake_later();
    CHECK(world.after_poll() == "a");
    SUBCASE("later and then now") {
        a->wake_later();
        a->wake_now();
        CHECK(world.notes == "aa");
        CHECK(world.after_poll() == "aa");
    }
}

TEST_CASE("wakeup: without a sleeper nothing happens") {
    World world;
    Wakeup nobody(world.io.get_executor());
    nobody.wake_later();
    nobody.wake_now();
    CHECK(world.after_poll().empty());
}

TEST_CASE("wakeup: a sleeper that is woken while others are woken runs as well") {
    World world;
    const auto second = world.sleeper('2');
    const auto first = std::make_shared<Wakeup>(world.io.get_executor());
    const auto wake_second = [](std::shared_ptr<Wakeup> mine, std::shared_ptr<Wakeup> other,
                                std::string& notes) -> Task<> {
        co_await mine->wait();
        notes += '1';
        other->wake_later();
    };
    spawn_vital(world.io.get_executor(), wake_second(first, second, world.notes));
    world.after_poll();
    first->wake_later();
    CHECK(world.after_poll() == "12");
}

TEST_CASE("wakeup: a sleeper of a loop that ends is let go") {
    const auto token = std::make_shared<int>(0);
    {
        asio::io_context io{1};
        const auto wakeup = std::make_shared<Wakeup>(io.get_executor());
        const auto sleep = [](std::shared_ptr<Wakeup> mine, std::shared_ptr<int>) -> Task<> {
            co_await mine->wait();
        };
        spawn_vital(io.get_executor(), sleep(wakeup, token));
        io.poll();
        CHECK(token.use_count() == 2);
        wakeup->wake_later();
    }
    CHECK(token.use_count() == 1);
}

TEST_CASE("sleeper: a coroutine that steps aside goes on after those that were ready") {
    asio::io_context io{1};
    DeadlineWheel wheel{SteadyTime{}};
    Sleeper sleeper{io.get_executor(), wheel};
    std::string order;
    spawn_vital(io.get_executor(), [](Sleeper& self, std::string& seen) -> Task<> {
        seen += 'a';
        co_await self.yield();
        seen += 'c';
    }(sleeper, order));
    asio::post(io, [&order] { order += 'b'; });
    io.run();
    CHECK(order == "abc");
}

}  // namespace

}  // namespace tidegate::net_wakeup_test

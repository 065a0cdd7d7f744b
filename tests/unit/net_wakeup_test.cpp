#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "net/wakeup.hpp"

namespace tidegate::net_wakeup_test {
namespace {

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

}  // namespace
}  // namespace tidegate::net_wakeup_test

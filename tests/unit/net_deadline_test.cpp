#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "net/deadline.hpp"

namespace tidegate::net_deadline_test {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kTick = DeadlineWheel::kTick;

// Counts how often it fired; may do something then.
struct Alarm {
    int fired = 0;
    void (*then)(Alarm&) = nullptr;
    DeadlineWheel* wheel = nullptr;
    Deadline deadline{[](void* self) {
                          auto& alarm = *static_cast<Alarm*>(self);
                          ++alarm.fired;
                          if (alarm.then != nullptr) alarm.then(alarm);
                      },
                      this};
};

// A wheel and its time, which a test moves on tick by tick.
struct Clock {
    DeadlineWheel wheel{SteadyTime{}};
    milliseconds passed{0};

    void pass(milliseconds time) {
        for (const milliseconds end = passed + time; passed < end;) {
            passed += std::min(kTick, end - passed);
            wheel.advance(SteadyTime{} + passed);
        }
    }
    // How long it takes from now until `alarm` fires; nothing if it has not within `bound`.
    std::optional<milliseconds> until_fired(const Alarm& alarm, milliseconds bound) {
        const milliseconds begin = passed;
        while (alarm.fired == 0 && passed - begin < bound) pass(milliseconds{1});
        return alarm.fired > 0 ? std::optional(passed - begin) : std::nullopt;
    }
};

}  // namespace

TEST_CASE("deadline: fires never early, and at most two ticks late, whenever it is set") {
    for (const int begin : {0, 1, 49, 50, 51, 99, 12'345}) {
        for (const int after : {0, 1, 49, 50, 51, 100, 1'000, 12'749, 12'800, 30'000, 60'000}) {
            CAPTURE(begin);
            CAPTURE(after);
            Clock clock;
            clock.pass(milliseconds{begin});
            Alarm alarm;
            clock.wheel.set(alarm.deadline, milliseconds{after});
            const auto took = clock.until_fired(alarm, milliseconds{after + 1'000});
            REQUIRE(took);
            CHECK(*took >= milliseconds{after});
            CHECK(*took <= milliseconds{after} + 2 * kTick);
        }
    }
}

TEST_CASE("deadline: fires once, and is not set afterwards") {
    Clock clock;
    Alarm alarm;
    CHECK_FALSE(alarm.deadline.is_set());
    clock.wheel.set(alarm.deadline, milliseconds{100});
    CHECK(alarm.deadline.is_set());
    clock.pass(milliseconds{60'000});
    CHECK(alarm.fired == 1);
    CHECK_FALSE(alarm.deadline.is_set());
}

TEST_CASE("deadline: one that is cleared does not fire, and can be set again") {
    Clock clock;
    Alarm alarm;
    clock.wheel.set(alarm.deadline, milliseconds{100});
    alarm.deadline.clear();
    clock.pass(milliseconds{20'000});
    CHECK(alarm.fired == 0);
    clock.wheel.set(alarm.deadline, milliseconds{100});
    clock.pass(milliseconds{200});
    CHECK(alarm.fired == 1);
}

TEST_CASE("deadline: one that is moved fires at its last time only, later or earlier") {
    Clock clock;
    Alarm later;
    clock.wheel.set(later.deadline, milliseconds{100});
    clock.pass(milliseconds{50});
    clock.wheel.set(later.deadline, milliseconds{30'000});
    clock.pass(milliseconds{29'900});
    CHECK(later.fired == 0);
    clock.pass(milliseconds{200});
    CHECK(later.fired == 1);

    Alarm earlier;
    clock.wheel.set(earlier.deadline, milliseconds{30'000});
    clock.wheel.set(earlier.deadline, milliseconds{100});
    clock.pass(milliseconds{200});
    CHECK(earlier.fired == 1);
    clock.pass(milliseconds{40'000});
    CHECK(earlier.fired == 1);
}

TEST_CASE("deadline: one that is put off again and again fires when that ends") {
    Clock clock;
    Alarm alarm;
    for (int i = 0; i < 1'000; ++i) {
        clock.wheel.set(alarm.deadline, milliseconds{200});
        clock.pass(milliseconds{50});
    }
    CHECK(alarm.fired == 0);
    clock.pass(milliseconds{250});
    CHECK(alarm.fired == 1);
}

TEST_CASE("deadline: a destroyed deadline is off the wheel") {
    Clock clock;
    {
        Alarm alarm;
        clock.wheel.set(alarm.deadline, milliseconds{100});
    }
    clock.pass(milliseconds{20'000});
}

TEST_CASE("deadline: one that fires may set itself again") {
    Clock clock;
    Alarm alarm;
    alarm.wheel = &clock.wheel;
    alarm.then = [](Alarm& self) { self.wheel->set(self.deadline, milliseconds{0}); };
    clock.wheel.set(alarm.deadline, milliseconds{0});
    clock.pass(milliseconds{1'000});
    CHECK(alarm.fired == 10);  // every second tick
}

TEST_CASE("deadline: one that fires may destroy others that are due in the same moment") {
    Clock clock;
    static std::vector<std::unique_ptr<Alarm>> others;
    Alarm alarm;
    alarm.then = [](Alarm&) { others.clear(); };
    clock.wheel.set(alarm.deadline, milliseconds{100});
    for (int i = 0; i < 3; ++i) {
        others.push_back(std::make_unique<Alarm>());
        clock.wheel.set(others.back()->deadline, milliseconds{100});
    }
    clock.pass(milliseconds{20'000});
    CHECK(alarm.fired == 1);
    CHECK(others.empty());
}

TEST_CASE("deadline: what is set when a loop that stood still goes on is not early") {
    for (const int standstill : {0, 50, 99, 150, 500, 900, 10'000, 60'000}) {
        CAPTURE(standstill);
        Clock clock;
        Alarm before;
        clock.wheel.set(before.deadline, milliseconds{600});
        clock.pass(milliseconds{500});
        clock.passed += milliseconds{standstill};
        Alarm behind;
        clock.wheel.set(behind.deadline, milliseconds{1'000});
        clock.wheel.catch_up(SteadyTime{} + clock.passed);
        clock.wheel.advance(SteadyTime{} + clock.passed);
        CHECK(before.fired == (standstill < 200 ? 0 : 1));
        const auto took = clock.until_fired(behind, milliseconds{2'000});
        REQUIRE(took);
        CHECK(*took >= milliseconds{1'000} - kTick);
        CHECK(*took <= milliseconds{1'000} + 2 * kTick);
    }
}

TEST_CASE("deadline: after a loop that stood still everything that is due fires") {
    Clock clock;
    std::vector<std::unique_ptr<Alarm>> alarms;
    for (int i = 0; i < 100; ++i) {
        alarms.push_back(std::make_unique<Alarm>());
        clock.wheel.set(alarms.back()->deadline, milliseconds{i * 500});
    }
    clock.wheel.advance(SteadyTime{} + milliseconds{60'000});
    for (const auto& alarm : alarms) CHECK(alarm->fired == 1);
}

}  // namespace tidegate::net_deadline_test

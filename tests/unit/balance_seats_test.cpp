#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "balance/seats.hpp"

namespace tidegate::balance {
namespace {

using Answer = SeatWaiter::Answer;

struct Waiting {
    explicit Waiting(Seats& seats)
        : waiter(
              seats, [](void* self) noexcept { ++static_cast<Waiting*>(self)->grants; }, this) {}

    std::atomic<int> grants{0};
    SeatWaiter waiter;
};

void await(const std::atomic<int>& value, int least) {
    for (int looks = 0; value < least; ++looks) {
        if (looks > 1'000) std::this_thread::yield();
    }
}

}  // namespace

TEST_CASE("seats: as many as there are, then none until one is given back") {
    Seats seats(3, 10);
    CHECK(seats.try_take());
    CHECK(seats.try_take());
    CHECK(seats.taken() == 2);
    Waiting last(seats);
    CHECK(last.waiter.take() == Answer::taken);
    CHECK_FALSE(last.waiter.accept());
    CHECK_FALSE(seats.try_take());
    CHECK(seats.taken() == 3);
    seats.give_back();
    CHECK(seats.try_take());
    CHECK(last.grants == 0);
}

TEST_CASE("seats: waiters get seats in the order in which they came") {
    Seats seats(1, 10);
    REQUIRE(seats.try_take());
    Waiting first(seats);
    Waiting second(seats);
    CHECK(first.waiter.take() == Answer::waiting);
    CHECK(second.waiter.take() == Answer::waiting);
    CHECK(seats.waiting() == 2);
    CHECK_FALSE(first.waiter.accept());
    seats.give_back();
    CHECK(first.grants == 1);
    CHECK(second.grants == 0);
    CHECK(seats.waiting() == 1);
    CHECK(seats.taken() == 1);
    CHECK_FALSE(second.waiter.accept());
    CHECK(first.waiter.accept());
    CHECK_FALSE(first.waiter.accept());
    seats.give_back();
    CHECK(second.grants == 1);
    CHECK(second.waiter.accept());
    seats.give_back();
    CHECK(seats.taken() == 0);
}

TEST_CASE("seats: no request takes a seat before those that wait") {
    Seats seats(1, 10);
    REQUIRE(seats.try_take());
    Waiting first(seats);
    first.waiter.take();
    CHECK_FALSE(seats.try_take());
    seats.give_back();
    // Granted, though not accepted yet.
    CHECK_FALSE(seats.try_take());
    Waiting second(seats);
    CHECK(second.waiter.take() == Answer::waiting);
    CHECK(first.waiter.accept());
}

TEST_CASE("seats: no more requests wait than the queue allows") {
    Seats seats(1, 2);
    REQUIRE(seats.try_take());
    Waiting first(seats);
    Waiting second(seats);
    Waiting third(seats);
    CHECK(first.waiter.take() == Answer::waiting);
    CHECK(second.waiter.take() == Answer::waiting);
    CHECK(third.waiter.take() == Answer::full);
    CHECK_FALSE(third.waiter.accept());
    first.waiter.leave();
    CHECK(third.waiter.take() == Answer::waiting);
    CHECK(seats.waiting() == 2);

    Seats without(1, 0);
    Waiting none(without);
    CHECK(none.waiter.take() == Answer::taken);
    CHECK(none.waiter.take() == Answer::full);
}

TEST_CASE("seats: a waiter that leaves is passed over, and a granted seat goes on to the next") {
    Seats seats(1, 10);
    REQUIRE(seats.try_take());
    Waiting first(seats);
    Waiting last(seats);
    first.waiter.take();
    {
        Waiting gone(seats);
        gone.waiter.take();
        last.waiter.take();
        CHECK(seats.waiting() == 3);
    }
    CHECK(seats.waiting() == 2);
    seats.give_back();
    CHECK(first.grants == 1);
    first.waiter.leave();
    CHECK_FALSE(first.waiter.accept());
    CHECK(last.grants == 1);
    last.waiter.leave();
    CHECK(seats.taken() == 0);
    CHECK(seats.try_take());
}

TEST_CASE("seats: a waiter may take again after it got a seat or left") {
    Seats seats(1, 10);
    Waiting one(seats);
    REQUIRE(one.waiter.take() == Answer::taken);
    for (int i = 0; i < 3; ++i) {
        CHECK(one.waiter.take() == Answer::waiting);
        one.waiter.leave();
        CHECK(one.waiter.take() == Answer::waiting);
        seats.give_back();
        CHECK(one.waiter.accept());
    }
    CHECK(one.grants == 3);
    CHECK(seats.waiting() == 0);
}

// The first gives the only seat back while the second begins to wait for it, or leaves. When both
// are through, nothing else happens that could make up for a wake-up that was lost.
TEST_CASE("seats: a seat that is given back while a request begins or ends its wait is not lost") {
    constexpr int kRounds = 20'000;
    Seats seats(1, 1);
    std::atomic<int> begun{0};
    std::atomic<int> given_back{0};
    std::thread giver([&] {
        for (int round = 1; round <= kRounds; ++round) {
            await(begun, round);
            seats.give_back();
            given_back = round;
        }
    });
    int lost = 0;
    std::minstd_rand random(1);
    for (int round = 1; round <= kRounds; ++round) {
        Waiting self(seats);
        lost += !seats.try_take();
        const bool leaves = round % 2 == 0;
        if (leaves) lost += self.waiter.take() != Answer::waiting;
        begun = round;
        for (auto pauses = random() % 200; pauses > 0; --pauses) seats.waiting();
        const Answer answer = leaves ? Answer::taken : self.waiter.take();
        if (leaves) self.waiter.leave();
        await(given_back, round);
        if (!leaves) {
            lost += answer != Answer::taken && !self.waiter.accept();
            seats.give_back();
        }
        lost += seats.taken() != 0 || seats.waiting() != 0;
        if (lost > 0) break;
    }
    CHECK(lost == 0);
    begun = kRounds;
    giver.join();
}

// Every waiter waits until it is granted a seat, or leaves.
TEST_CASE("seats: threads neither exceed the bound, lose a wake-up nor leave a seat behind") {
    constexpr std::uint32_t kMax = 2;
    constexpr int kThreads = 4;
    constexpr int kRounds = 5'000;
    for (const std::uint32_t queue_max : {1U, 2U, 100U}) {
        Seats seats(kMax, queue_max);
        std::atomic<std::uint32_t> seated{kMax};
        std::atomic<bool> too_many{false};
        std::atomic<bool> not_granted{false};
        // Until somebody waits, all seats are taken.
        for (std::uint32_t i = 0; i < kMax; ++i) REQUIRE(seats.try_take());
        const auto use_seats = [&](unsigned seed) {
            std::minstd_rand random(seed);
            for (int round = 0; round < kRounds; ++round) {
                Waiting self(seats);
                Answer answer = self.waiter.take();
                for (; answer == Answer::full; answer = self.waiter.take()) {
                    std::this_thread::yield();
                }
                if (answer == Answer::waiting && random() % 4 == 0) {
                    for (auto pauses = random() % 50; pauses > 0; --pauses) seats.waiting();
                    continue;  // leaves
                }
                if (answer == Answer::waiting) {
                    await(self.grants, 1);
                    if (!self.waiter.accept()) not_granted = true;
                }
                if (++seated > kMax) too_many = true;
                if (random() % 8 == 0) std::this_thread::yield();
                --seated;
                seats.give_back();
            }
        };
        std::vector<std::thread> threads;
        for (unsigned seed = 1; seed <= kThreads; ++seed) threads.emplace_back(use_seats, seed);
        while (seats.waiting() == 0) std::this_thread::yield();
        for (std::uint32_t i = 0; i < kMax; ++i) {
            --seated;
            seats.give_back();
        }
        for (std::thread& thread : threads) thread.join();
        CHECK_FALSE(too_many);
        CHECK_FALSE(not_granted);
        CHECK(seats.taken() == 0);
        CHECK(seats.waiting() == 0);
    }
}

}  // namespace tidegate::balance

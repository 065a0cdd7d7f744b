#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "balance/max_connections.hpp"

namespace tidegate::balance::max_connections_test {
namespace {

using Answer = SeatWaiter::Answer;

struct Waiting {
    explicit Waiting(Seats& seats, const std::string& address = "")
        : waiter(
              seats, [](void* self) noexcept { ++static_cast<Waiting*>(self)->changes; }, this,
              parse_ip(address)) {}

    std::atomic<int> changes{0};
    SeatWaiter waiter;
};

constexpr const char* kA = "192.0.2.1";
constexpr const char* kB = "192.0.2.2";
constexpr const char* kC = "2001:db8::1";
constexpr const char* kD = "2001:db8::2";

// Requests that wait while all seats are taken.
struct Line {
    Line(std::uint32_t max, std::uint32_t queue_max) : seats(max, queue_max) {
        while (seats.try_take()) {
        }
    }
    // One more of `address`; empty: it has none. False: the queue is full.
    bool waits(const std::string& address) {
        all.push_back(std::make_unique<Waiting>(seats, address));
        if (all.back()->waiter.take() == Answer::waiting) return true;
        all.pop_back();
        return false;
    }

    Seats seats;
    std::vector<std::unique_ptr<Waiting>> all;
};

void await(const std::atomic<int>& value, int least) {
    for (int looks = 0; value < least; ++looks) {
        if (looks > 1'000) std::this_thread::yield();
    }
}

}  // namespace

TEST_CASE("seats: there are as many as the bound, and one that is given back may be taken again") {
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
    CHECK(last.changes == 0);
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
    CHECK(first.changes == 1);
    CHECK(second.changes == 0);
    CHECK(seats.waiting() == 1);
    CHECK(seats.taken() == 1);
    CHECK_FALSE(second.waiter.accept());
    CHECK(first.waiter.accept());
    CHECK_FALSE(first.waiter.accept());
    seats.give_back();
    CHECK(second.changes == 1);
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
    CHECK(first.changes == 1);
    first.waiter.leave();
    CHECK_FALSE(first.waiter.accept());
    CHECK(last.changes == 1);
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
    CHECK(one.changes == 3);
    CHECK(seats.waiting() == 0);
}

TEST_CASE("seats: of a full queue the last request of the address with most of it makes room") {
    Line line(1, 12);  // three places are a quarter
    // In the order in which they came: A five times, B four times, C three times.
    for (const char* address : {kA, kB, kA, kC, kB, kA, kC, kB, kA, kC, kB, kA})
        REQUIRE(line.waits(address));
    CHECK(line.seats.waiting() == 12);
    const auto pushed_out = [&] {
        std::vector<std::size_t> all;
        for (std::size_t i = 0; i < line.all.size(); ++i) {
            if (line.all[i]->waiter.is_pushed_out()) all.push_back(i);
        }
        return all;
    };
    CHECK(line.waits(kD));
    CHECK(pushed_out() == std::vector<std::size_t>{11});
    CHECK(line.waits(""));
    CHECK(pushed_out() == std::vector<std::size_t>{8, 11});
    CHECK(line.waits(kA));  // B has more than a quarter, and A no more
    CHECK(pushed_out() == std::vector<std::size_t>{8, 10, 11});
    CHECK_FALSE(line.waits(kA));  // no other address has, and it makes no room for itself
    CHECK(line.waits(kD));
    CHECK(pushed_out() == std::vector<std::size_t>{8, 10, 11, 14});
    for (const char* address : {kA, kB, kC, kD, ""}) CHECK_FALSE(line.waits(address));
    CHECK(line.seats.waiting() == 12);
    for (const std::size_t i : pushed_out()) {
        Waiting& gone = *line.all[i];
        CHECK(gone.changes == 1);
        CHECK_FALSE(gone.waiter.is_waiting());
        CHECK_FALSE(gone.waiter.accept());
        gone.waiter.leave();
        CHECK_FALSE(gone.waiter.is_pushed_out());
    }
    CHECK(line.seats.waiting() == 12);
}

TEST_CASE("seats: clients without an address, and a small part of the queue, make no room") {
    Line nameless(1, 4);
    for (int i = 0; i < 4; ++i) REQUIRE(nameless.waits(""));
    CHECK_FALSE(nameless.waits(kA));

    Line small(1, 2);  // one place is each address's
    REQUIRE(small.waits(kA));
    REQUIRE(small.waits(kB));
    CHECK_FALSE(small.waits(kC));
    small.all[0]->waiter.leave();
    REQUIRE(small.waits(kB));
    CHECK(small.waits(kC));
    CHECK(small.all.back()->waiter.is_waiting());
    CHECK_FALSE(small.waits(kC));
}

TEST_CASE("seats: a request that was granted its seat is not pushed out") {
    Line line(1, 2);
    REQUIRE(line.waits(kA));
    REQUIRE(line.waits(kA));
    line.seats.give_back();
    CHECK(line.waits(kB));
    CHECK_FALSE(line.waits(kB));
    CHECK_FALSE(line.all[0]->waiter.is_pushed_out());
    CHECK(line.all[0]->waiter.accept());
}

TEST_CASE("seats: a seat for others than some addresses goes to each other address by turns") {
    Line line(9, 20);
    for (const char* address : {kA, kA, kB, kB, kA, kC, kB, ""}) REQUIRE(line.waits(address));
    const std::vector<IpAddress> a{*parse_ip(kA)};
    const std::vector<IpAddress> all{*parse_ip(kC), *parse_ip(kA), *parse_ip(kB)};
    for (const std::size_t next : {2U, 5U, 7U, 3U, 6U}) {
        CAPTURE(next);
        CHECK(line.seats.has_waiters_besides(a));
        line.seats.give_back_besides(a);
        CHECK(line.all[next]->waiter.accept());
    }
    CHECK_FALSE(line.seats.has_waiters_besides(a));
    CHECK(line.seats.waiting() == 3);
    line.seats.give_back_besides(a);  // no other is left
    CHECK(line.all[0]->waiter.accept());
    CHECK(line.seats.has_waiters_besides({}));
    CHECK_FALSE(line.seats.has_waiters_besides(all));
    line.all.clear();
    CHECK_FALSE(line.seats.has_waiters_besides({}));
    line.seats.give_back_besides(all);
    CHECK(line.seats.taken() == 8);
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
        // All seats are taken until a request waits.
        for (std::uint32_t i = 0; i < kMax; ++i) REQUIRE(seats.try_take());
        const std::vector<IpAddress> b{*parse_ip(kB)};
        const auto use_seats = [&](unsigned seed) {
            std::minstd_rand random(seed);
            for (int round = 0; round < kRounds; ++round) {
                Waiting self(seats, random() % 3 == 0 ? kA : kB);
                Answer answer = self.waiter.take();
                for (; answer == Answer::full; answer = self.waiter.take()) {
                    std::this_thread::yield();
                }
                if (answer == Answer::waiting && random() % 4 == 0) {
                    for (auto pauses = random() % 50; pauses > 0; --pauses) seats.waiting();
                    continue;  // leaves
                }
                if (answer == Answer::waiting) {
                    await(self.changes, 1);
                    if (self.waiter.is_pushed_out()) continue;
                    if (!self.waiter.accept()) not_granted = true;
                }
                if (++seated > kMax) too_many = true;
                if (random() % 8 == 0) std::this_thread::yield();
                --seated;
                if (round % 3 == 0) {
                    seats.give_back_besides(b);
                } else {
                    seats.give_back();
                }
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

}  // namespace tidegate::balance::max_connections_test

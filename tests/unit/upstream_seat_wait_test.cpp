#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "upstream/fair_share.hpp"
#include "upstream/seat_wait.hpp"
#include "upstream_world.hpp"

namespace tidegate::upstream::seat_wait_test {

namespace {

using Answer = SeatWait::Answer;

const std::optional<IpAddress> kNoAddress;
const IpPrefixes kPrefixes;

// A request of a thread that waits as forwarding does.
struct Waiter {
    Waiter(asio::io_context& io, balance::Seats& seats,
           const std::optional<IpAddress>& client = kNoAddress)
        : loop(io),
          wakeup(io.get_executor()),
          request(
              client, kPrefixes, [](void*) {}, nullptr) {
        wait.emplace(io.get_executor(), seats, wakeup, request);
    }

    Answer take() { return wait->take(); }
    void sleep() {
        spawn_vital(loop.get_executor(), [](Waiter& self) -> Task<> {
            while (!self.wait->accept() && !self.wait->is_pushed_out()) {
                co_await self.wakeup.wait();
                ++self.wakes;
            }
            self.is_seated = !self.wait->is_pushed_out();
            self.is_over = true;
        }(*this));
        settle();
    }
    void settle() {
        loop.restart();
        loop.poll();
    }

    asio::io_context& loop;
    Wakeup wakeup;
    ActiveRequest request;
    std::optional<SeatWait> wait;
    int wakes = 0;
    bool is_over = false;
    bool is_seated = false;
};

}  // namespace

TEST_CASE("seat_wait: a free seat is taken at once") {
    asio::io_context io;
    balance::Seats seats(1, 1);
    Waiter waiter(io, seats);
    CHECK(waiter.take() == Answer::taken);
    CHECK(waiter.wait->accept());
    CHECK(seats.taken() == 1);
    seats.give_back();
    CHECK(seats.taken() == 0);
}

TEST_CASE("seat_wait: a seat that another thread gives back wakes the one that waits") {
    asio::io_context io;
    balance::Seats seats(1, 1);
    REQUIRE(seats.try_take());
    Waiter waiter(io, seats);
    REQUIRE(waiter.take() == Answer::waiting);
    waiter.sleep();
    CHECK_FALSE(waiter.is_over);
    CHECK(waiter.wakes == 0);
    std::thread other([&] { seats.give_back(); });
    CHECK(runs_until(io, [&] { return waiter.is_over; }));
    other.join();
    CHECK(waiter.is_seated);
    CHECK(waiter.wakes == 1);
    CHECK(seats.taken() == 1);
    CHECK(seats.waiting() == 0);
}

TEST_CASE("seat_wait: a seat that was granted before the request sleeps is not missed") {
    asio::io_context io;
    balance::Seats seats(1, 1);
    REQUIRE(seats.try_take());
    Waiter waiter(io, seats);
    REQUIRE(waiter.take() == Answer::waiting);
    std::thread([&] { seats.give_back(); }).join();
    waiter.sleep();
    CHECK(waiter.is_seated);
    waiter.wait.reset();
    waiter.settle();
    CHECK(seats.taken() == 1);  // it is the request's, which outlives the wait
}

TEST_CASE("seat_wait: the request that waits longest is first, in whichever thread") {
    asio::io_context one;
    asio::io_context other;
    balance::Seats seats(1, 4);
    REQUIRE(seats.try_take());
    std::vector<std::unique_ptr<Waiter>> line;
    for (int i = 0; i < 4; ++i) {
        line.push_back(std::make_unique<Waiter>(i % 2 == 0 ? one : other, seats));
        REQUIRE(line.back()->take() == Answer::waiting);
        line.back()->sleep();
    }
    CHECK(seats.waiting() == 4);
    for (std::size_t next = 0; next < line.size(); ++next) {
        CHECK_FALSE(seats.try_take());  // no request overtakes the queue
        seats.give_back();
        for (const auto& waiter : line) waiter->settle();
        for (std::size_t i = 0; i < line.size(); ++i) CHECK(line[i]->is_seated == (i <= next));
    }
    CHECK(seats.taken() == 1);
}

TEST_CASE("seat_wait: a request that leaves makes room in the queue, and keeps no seat") {
    asio::io_context io;
    balance::Seats seats(1, 2);
    REQUIRE(seats.try_take());
    Waiter first(io, seats);
    Waiter second(io, seats);
    REQUIRE(first.take() == Answer::waiting);
    REQUIRE(second.take() == Answer::waiting);
    Waiter third(io, seats);
    CHECK(third.take() == Answer::full);
    first.wait.reset();
    CHECK(third.take() == Answer::waiting);
    second.sleep();
    third.sleep();
    seats.give_back();
    second.settle();
    CHECK(second.is_seated);
    CHECK_FALSE(third.is_over);
}

TEST_CASE("seat_wait: a seat granted to a request that leaves goes on to the next") {
    asio::io_context io;
    balance::Seats seats(1, 2);
    REQUIRE(seats.try_take());
    Waiter first(io, seats);
    Waiter second(io, seats);
    REQUIRE(first.take() == Answer::waiting);
    REQUIRE(second.take() == Answer::waiting);
    second.sleep();
    std::thread([&] { seats.give_back(); }).join();
    first.wait.reset();  // before the news has come
    second.settle();
    CHECK(second.is_seated);
    CHECK(seats.taken() == 1);
    seats.give_back();
    CHECK(seats.taken() == 0);
}

TEST_CASE("seat_wait: the notification of a grant after the end of the wait does nothing") {
    asio::io_context io;
    balance::Seats seats(1, 1);
    REQUIRE(seats.try_take());
    auto waiter = std::make_unique<Waiter>(io, seats);
    REQUIRE(waiter->take() == Answer::waiting);
    std::thread([&] { seats.give_back(); }).join();
    waiter.reset();
    CHECK(seats.taken() == 0);
    io.restart();
    CHECK(io.poll() > 0);
}

TEST_CASE("seat_wait: a request that is pushed out is woken, and has no place any more") {
    asio::io_context io;
    balance::Seats seats(1, 2);
    REQUIRE(seats.try_take());
    const std::optional<IpAddress> crowd = parse_ip("192.0.2.1");
    const std::optional<IpAddress> other = parse_ip("192.0.2.2");
    Waiter first(io, seats, crowd);
    Waiter last(io, seats, crowd);
    REQUIRE(first.take() == Answer::waiting);
    REQUIRE(last.take() == Answer::waiting);
    first.sleep();
    last.sleep();
    asio::io_context elsewhere;
    Waiter next(elsewhere, seats, other);
    std::thread([&] { CHECK(next.take() == Answer::waiting); }).join();
    CHECK(last.wait->is_pushed_out());
    CHECK_FALSE(last.wait->is_waiting());
    CHECK_FALSE(last.is_over);  // its thread has not noticed
    CHECK(seats.waiting() == 2);
    last.settle();
    CHECK(last.is_over);
    CHECK_FALSE(last.is_seated);
    CHECK_FALSE(last.wait->accept());
    last.wait.reset();
    CHECK(seats.waiting() == 2);
    CHECK_FALSE(first.is_over);
    seats.give_back();
    first.settle();
    CHECK(first.is_seated);
}

// Four threads with a loop each fight for two seats. Every grant has to arrive, or a loop stands.
TEST_CASE("seat_wait: no seat is lost between threads") {
    constexpr int kThreads = 4;
    constexpr int kRequests = 500;
    balance::Seats seats(2, kThreads);
    std::atomic<int> served{0};
    std::atomic<std::uint32_t> most{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            asio::io_context io;
            for (int k = 0; k < kRequests; ++k) {
                Waiter waiter(io, seats);
                if (waiter.take() == Answer::waiting && k % 7 == 0) continue;  // the client leaves
                waiter.sleep();
                if (!runs_until(io, [&] { return waiter.is_over; })) return;
                ++served;
                const std::uint32_t taken = seats.taken();
                if (taken > most) most = taken;
                std::this_thread::yield();
                seats.give_back();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(served > kThreads * kRequests / 2);
    CHECK(most <= 2);
    CHECK(seats.taken() == 0);
    CHECK(seats.waiting() == 0);
}

}  // namespace tidegate::upstream::seat_wait_test

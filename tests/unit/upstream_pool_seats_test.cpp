#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "upstream/fair_share.hpp"
#include "upstream_pool_world.hpp"
#include "upstream_world.hpp"

namespace tidegate::upstream::pool_seats_test {

using namespace std::chrono_literals;
using Answer = SeatWait::Answer;

namespace {

// A request of one client that has a connection, whose body is slow to come.
struct Uploading {
    Uploading(Pooled& pooled, const std::string& address, std::chrono::seconds since = 1s,
              std::size_t worker = 0)
        : pool(*pooled.pools[worker]),
          client(parse_ip(address)),
          lease(pooled.world.buffers),
          request(
              client, pooled.prefixes,
              [](void* self) {
                  Uploading& one = *static_cast<Uploading*>(self);
                  one.pool.evict(one.lease);
              },
              this) {
        REQUIRE(pool.admit(request));
        REQUIRE(pooled.connects(pooled.next(), lease, request));
        request.body.begin_wait(steady_now() - since, 1);
    }
    Pool& pool;
    std::optional<IpAddress> client;
    Stream lease;
    ActiveRequest request;
};

// A request of one client that waits for a seat.
struct InLine {
    InLine(Pooled& pooled, const std::string& address, std::size_t worker = 0)
        : client(parse_ip(address)),
          prefixes(pooled.prefixes),
          wakeup(pooled.world.io.get_executor()),
          wait(pooled.pools[worker]->make_wait(wakeup, request)),
          is_waiting(!pooled.pools[worker]->take_seat(request) &&
                     pooled.pools[worker]->begin_wait(wait)) {}

    std::optional<IpAddress> client;
    const IpPrefixes& prefixes;
    Wakeup wakeup;
    ActiveRequest request{client, prefixes, [](void*) {}, nullptr};
    SeatWait wait;
    bool is_waiting;
};

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

using Leases = std::vector<std::unique_ptr<Stream>>;

// Connects until one waits: the kernel leaves a connection unanswered that the queue of the
// listener has no place for. The last of the streams is that of the connection which waits.
Leases connect_until_unanswered(Pooled& pooled, Server& server) {
    pooled.listeners[0].listen(0);
    Leases leases;
    do {
        leases.push_back(std::make_unique<Stream>(pooled.world.buffers));
        REQUIRE(leases.size() < 10);
        pooled.seat = pooled.pool->take_seat(pooled.request);
        REQUIRE(pooled.seat);
    } while (pooled.begin_connect(server, *leases.back()) == ConnectFault::none);
    return leases;
}

}  // namespace

TEST_CASE("pool: connections in use count against max_connections") {
    Pooled pooled({1}, bounds(1, 1));
    Server& server = pooled.next();
    Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(server, lease));
    Stream second{pooled.world.buffers};
    CHECK_FALSE(pooled.connects(server, second));
    pooled.pool->throw_away(lease);
    CHECK_FALSE(lease);
    CHECK(pooled.connects(server, second));
}

TEST_CASE("pool: an evicted connection is uncounted once, and never kept") {
    Pooled pooled({1}, bounds(2, 2));
    Server& server = pooled.next();
    Uploading first(pooled, "192.0.2.1");
    Uploading second(pooled, "192.0.2.1");
    Stream refused{pooled.world.buffers};
    CHECK_FALSE(pooled.connects(server, refused, first.request));

    Uploading other(pooled, "192.0.2.2");  // in the place of one of the two
    Uploading& left = first.lease.is_evicted() ? first : second;
    Uploading& stays = first.lease.is_evicted() ? second : first;
    REQUIRE(left.lease.is_evicted());
    CHECK_FALSE(left.lease.http1().connection()->is_open());
    CHECK_FALSE(stays.lease.is_evicted());
    CHECK_FALSE(pooled.connects(server, refused));

    // Given back as after a normal end: the connection is not idle, and no other place is free.
    pooled.pool->give_back(left.lease);
    CHECK_FALSE(left.lease);
    CHECK_FALSE(pooled.takes_idle(server));
    CHECK_FALSE(pooled.connects(server, refused));
    pooled.pool->give_back(other.lease);
    pooled.pool->throw_away(stays.lease);
    Stream lease{pooled.world.buffers};
    CHECK(pooled.pool->take_idle(server, lease));
    CHECK(pooled.connects(server, refused));
    Stream third{pooled.world.buffers};
    CHECK_FALSE(pooled.connects(server, third));
}

TEST_CASE("pool: an idle connection to one server makes room for one to another") {
    Pooled pooled({1, 1}, bounds(1, 1));
    Server& first = pooled.make_idle();
    Server& second = pooled.next();
    REQUIRE(&first != &second);
    Stream lease{pooled.world.buffers};
    CHECK(pooled.connects(second, lease));
    CHECK_FALSE(pooled.takes_idle(first));
}

TEST_CASE("pool: a server that does not take the connection in time leaves the seat") {
    Pooled pooled({1});
    Server& server = pooled.next();
    const Leases leases = connect_until_unanswered(pooled, server);
    CHECK(pooled.seats_taken() == leases.size());
    REQUIRE_FALSE(pooled.outcome);
    pooled.world.wheel.advance(SteadyTime{} + 10s);
    pooled.settle();
    CHECK(pooled.outcome == ConnectFault::timeout);
    CHECK_FALSE(*leases.back());
    CHECK(pooled.seats_taken() == leases.size());
    pooled.seat = Seat();
    CHECK(pooled.seats_taken() == leases.size() - 1);
    CHECK(server.shared().state.failures() == 1);
}

TEST_CASE("pool: each way that a connection goes gives its seat back") {
    Pooled pooled({1}, [](config::Upstream& settings) {
        settings.max_connections = 4;
        settings.idle_timeout = 10s;
    });
    Server& server = pooled.make_idle();
    CHECK(pooled.seats_taken() == 1);
    CHECK(pooled.takes_idle(server));
    CHECK(pooled.seats_taken() == 0);

    pooled.make_idle();
    auto far = pooled.listeners[0].accept();
    far = pooled.listeners[0].accept();
    far.close();
    pooled.settle(true);
    CHECK_FALSE(pooled.takes_idle(server));  // the server has closed it
    CHECK(pooled.seats_taken() == 0);

    pooled.make_idle();
    pooled.pool->sweep(steady_now() + 10s);
    CHECK(pooled.seats_taken() == 0);

    Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(server, lease));
    pooled.pool->evict(lease);
    CHECK(pooled.seats_taken() == 0);
    pooled.pool->evict(lease);
    pooled.pool->throw_away(lease);
    CHECK(pooled.seats_taken() == 0);

    pooled.make_idle();
    REQUIRE(pooled.connects(server, lease));
    CHECK(pooled.seats_taken() == 2);
    pooled.pool->stop();
    CHECK(pooled.seats_taken() == 1);
    pooled.pool->give_back(lease);
    CHECK(pooled.seats_taken() == 0);
}

TEST_CASE("pool: max_connections is one bound for all workers") {
    Pooled pooled({1}, bounds(2, 2), 2);
    Stream first{pooled.world.buffers};
    Stream second{pooled.world.buffers};
    REQUIRE(pooled.connects(pooled.next(), first));
    REQUIRE(pooled.connects(pooled.next(), second));
    CHECK_FALSE(pooled.pools[1]->take_seat(pooled.request));
    pooled.pool->throw_away(first);
    const Seat seat = pooled.pools[1]->take_seat(pooled.request);
    CHECK(seat);
    CHECK_FALSE(pooled.pool->take_seat(pooled.request));
}

TEST_CASE("pool: make_room() closes an idle connection for a request of another worker") {
    Pooled pooled({1, 1}, bounds(1, 1), 2);
    Server& idle = pooled.make_idle();
    pooled.pool->make_room(steady_now());
    CHECK(idle.idle_count() == 1);  // no request waits
    InLine waiting(pooled, "192.0.2.1", 1);
    REQUIRE(waiting.is_waiting);
    CHECK_FALSE(waiting.wait.accept());
    pooled.pool->make_room(steady_now());
    CHECK(waiting.wait.accept());
    CHECK(idle.idle_count() == 0);
    CHECK(pooled.seats_taken() == 1);
}

TEST_CASE("pool: make_room() evicts a slow upload for a request of another worker") {
    Pooled pooled({1}, bounds(2, 1), 2);
    Uploading slow(pooled, "192.0.2.1", 6s);
    Uploading quick(pooled, "192.0.2.2", 1s);
    InLine waiting(pooled, "192.0.2.3", 1);
    REQUIRE(waiting.is_waiting);
    pooled.pool->make_room(steady_now());
    CHECK(slow.lease.is_evicted());
    CHECK_FALSE(quick.lease.is_evicted());
    CHECK(waiting.wait.accept());
    pooled.pool->throw_away(slow.lease);
    CHECK(pooled.seats_taken() == 2);
}

TEST_CASE("pool: an address with all connections of one worker makes room for other workers'") {
    Pooled pooled({1}, bounds(8, 1), 2);  // each worker's share is one
    std::vector<std::unique_ptr<Uploading>> crowd;
    for (int i = 0; i < 8; ++i) crowd.push_back(std::make_unique<Uploading>(pooled, "192.0.2.1"));
    const auto evicted = [&] {
        return std::count_if(crowd.begin(), crowd.end(),
                             [](const auto& one) { return one->lease.is_evicted(); });
    };
    // The crowd is first in the queue, in both workers.
    InLine own(pooled, "192.0.2.1", 1);
    InLine beside(pooled, "192.0.2.1", 0);
    REQUIRE(own.is_waiting);
    REQUIRE(beside.is_waiting);
    for (const std::size_t worker : {0U, 1U}) pooled.pools[worker]->make_room(steady_now());
    CHECK(evicted() == 0);

    std::vector<std::unique_ptr<InLine>> others;
    for (int i = 0; i < 9; ++i) {
        const std::string address = "198.51.100." + std::to_string(i);
        others.push_back(std::make_unique<InLine>(pooled, address, 1));
        REQUIRE(others.back()->is_waiting);
    }
    pooled.pools[1]->make_room(steady_now());
    CHECK(evicted() == 0);
    pooled.pools[0]->make_room(steady_now());
    CHECK(evicted() == 7);  // one is the crowd's share
    for (std::size_t i = 0; i < others.size(); ++i) CHECK(others[i]->wait.accept() == (i < 7));
    CHECK_FALSE(own.wait.accept());
    CHECK_FALSE(beside.wait.accept());
    for (const auto& one : crowd) pooled.pool->throw_away(one->lease);
    CHECK(pooled.seats_taken() == 8);
}

TEST_CASE("pool: two addresses with all connections of a worker each do not evict each other's") {
    Pooled pooled({1}, bounds(8, 1), 2);
    std::vector<std::unique_ptr<Uploading>> all;
    for (const std::size_t worker : {0U, 1U}) {
        const std::string address = "192.0.2." + std::to_string(worker);
        for (int i = 0; i < 4; ++i) {
            all.push_back(std::make_unique<Uploading>(pooled, address, 1s, worker));
        }
    }
    InLine one(pooled, "192.0.2.0", 0);
    InLine other(pooled, "192.0.2.1", 1);
    REQUIRE(one.is_waiting);
    REQUIRE(other.is_waiting);
    for (int tick = 0; tick < 2; ++tick) {
        for (const std::size_t worker : {0U, 1U}) pooled.pools[worker]->make_room(steady_now());
    }
    // Only the first look of the first worker did not know of the other's.
    const auto evicted = std::count_if(
        all.begin(), all.end(), [](const auto& upload) { return upload->lease.is_evicted(); });
    CHECK(evicted <= 1);
}

TEST_CASE("pool: an address that has its places of the queue makes room in other workers, too") {
    Pooled pooled(
        {1},
        [](config::Upstream& settings) {
            settings.max_connections = 1;
            settings.queue.max = 8;
        },
        2);
    Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(pooled.next(), lease));
    std::vector<std::unique_ptr<InLine>> crowd;
    for (int i = 0; i < 8; ++i) {
        crowd.push_back(std::make_unique<InLine>(pooled, "192.0.2.1", 0));
        REQUIRE(crowd.back()->is_waiting);
    }
    const InLine other(pooled, "192.0.2.2", 1);
    CHECK(other.is_waiting);
    CHECK(crowd.back()->wait.is_pushed_out());
    CHECK_FALSE(other.wait.is_pushed_out());
}

TEST_CASE("pool: connecting ends when the client leaves, and is no failure of the server") {
    Pooled pooled({1});
    Server& server = pooled.next();
    const Leases leases = connect_until_unanswered(pooled, server);
    REQUIRE_FALSE(pooled.outcome);
    pooled.client_left = true;
    pooled.sleeper.wakeup().wake_later();
    pooled.settle();
    CHECK(pooled.outcome == ConnectFault::client_left);
    CHECK_FALSE(*leases.back());
    CHECK(pooled.seats_taken() == leases.size());
    pooled.seat = Seat();
    CHECK(pooled.seats_taken() == leases.size() - 1);
    CHECK(server.shared().state.failures() == 0);
}

TEST_CASE("pool: a search for a request to evict does not look at the queue") {
    Pooled pooled({1}, bounds(1, 1));
    Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(pooled.next(), lease));
    InLine first(pooled, "192.0.2.1");
    pooled.pool->leave_queue(first.wait);
    REQUIRE(pooled.pool->admit(first.request));
    CHECK(first.request.is_linked());
    REQUIRE(pooled.pool->begin_wait(first.wait));
    CHECK_FALSE(first.request.is_linked());
    pooled.pool->throw_away(lease);
    REQUIRE(first.wait.accept());
    Seat seat(pooled.group->seats());
    Stream stream{pooled.world.buffers};
    pooled.pool->end_wait(first.wait, pooled.next(), Pool::Reuse::any_server, stream, seat);
    CHECK(first.request.is_linked());
}

TEST_CASE("pool: a request that reuses no connection gets the seat, and the connection is closed") {
    using Reuse = Pool::Reuse;
    for (const Reuse reuse : {Reuse::any_server, Reuse::own_server, Reuse::none}) {
        Pooled pooled({1}, bounds(1, 1));
        Server& server = pooled.next();
        Stream lease{pooled.world.buffers};
        REQUIRE(pooled.connects(server, lease));
        InLine next(pooled, "192.0.2.1");
        REQUIRE(next.is_waiting);
        // A connection goes along with its seat inside one thread.
        asio::post(pooled.world.io, [&] { pooled.pool->give_back(lease); });
        pooled.settle();
        REQUIRE(next.wait.accept());
        Seat seat(pooled.group->seats());
        Stream stream{pooled.world.buffers};
        pooled.pool->end_wait(next.wait, server, reuse, stream, seat);
        CHECK(static_cast<bool>(stream) == (reuse != Reuse::none));
        CHECK(static_cast<bool>(seat) == (reuse == Reuse::none));
        CHECK(pooled.seats_taken() == 1);
        if (stream) pooled.pool->throw_away(stream);
    }
}

TEST_CASE("pool: as many requests wait as `queue` allows, and a seat goes to the first of them") {
    Pooled pooled({1}, [](config::Upstream& settings) {
        settings.max_connections = 1;
        settings.queue.max = 2;
    });
    Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(pooled.next(), lease));
    InLine first(pooled, "192.0.2.1");
    InLine second(pooled, "192.0.2.2");
    InLine third(pooled, "192.0.2.3");
    CHECK(first.is_waiting);
    CHECK(second.is_waiting);
    CHECK_FALSE(third.is_waiting);
    CHECK(pooled.group->seats().waiting() == 2);
    pooled.pool->throw_away(lease);
    CHECK(first.wait.accept());
    CHECK_FALSE(second.wait.accept());
    CHECK_FALSE(pooled.pool->take_seat(third.request));  // it would overtake the queue
    pooled.group->seats().give_back();
    CHECK(second.wait.accept());
    CHECK(pooled.seats_taken() == 1);

    Pooled without({1}, [](config::Upstream& settings) {
        settings.max_connections = 1;
        settings.queue.max = 0;
    });
    REQUIRE(without.connects(without.next(), lease));
    CHECK_FALSE(InLine(without, "192.0.2.1").is_waiting);
}

TEST_CASE("pool: an address that fills the queue makes room for others, its last request first") {
    Pooled pooled({1}, [](config::Upstream& settings) {
        settings.max_connections = 1;
        settings.queue.max = 8;  // two places are a share
    });
    Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(pooled.next(), lease));
    std::vector<std::unique_ptr<InLine>> crowd;
    for (int i = 0; i < 8; ++i) {
        crowd.push_back(std::make_unique<InLine>(pooled, "192.0.2.1"));
        REQUIRE(crowd.back()->is_waiting);
    }
    CHECK_FALSE(InLine(pooled, "192.0.2.1").is_waiting);  // not for itself
    CHECK(pooled.group->seats().waiting() == 8);

    // All in one turn, before any request that is pushed out has noticed.
    std::vector<std::unique_ptr<InLine>> others;
    for (int i = 0; i < 6; ++i) {
        others.push_back(std::make_unique<InLine>(pooled, "192.0.2." + std::to_string(10 + i)));
        CHECK(others.back()->is_waiting);
    }
    for (std::size_t i = 0; i < crowd.size(); ++i) {
        CHECK(crowd[i]->wait.is_pushed_out() == (i >= 2));
    }
    CHECK_FALSE(InLine(pooled, "192.0.2.20").is_waiting);  // a share stays
    CHECK(pooled.group->seats().waiting() == 8);
    for (const auto& one : others) CHECK_FALSE(one->wait.is_pushed_out());
}

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

}  // namespace tidegate::upstream::pool_seats_test

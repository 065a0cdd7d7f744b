#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/metrics.hpp"
#include "upstream/pool.hpp"
#include "upstream_world.hpp"

using namespace tidegate;
using namespace tidegate::upstream;
using namespace std::chrono_literals;
using ConnectFault = Pool::ConnectFault;

namespace {

struct World {
    asio::io_context io{1};
    Readiness readiness{io};
    telemetry::Metrics metrics{{}, {}, 1, "test"};
    DeadlineWheel wheel{SteadyTime{}};
    BufferPool buffers;
};

// Servers that only listen, and the pools of connections to them, one a worker.
struct Pooled {
    using Change = std::function<void(config::Upstream&)>;

    explicit Pooled(const std::vector<int>& weights, const Change& change = {},
                    std::size_t workers = 1) {
        std::vector<config::UpstreamServer> servers;
        for (const int weight : weights)
            servers.push_back(server_at("127.0.0.1", listen(), weight));
        config::Upstream settings = upstream_of(servers);
        if (change) change(settings);
        group = group_of(settings, workers);
        for (std::size_t i = 0; i < workers; ++i) {
            pools.push_back(std::make_unique<Pool>(world.io.get_executor(), world.readiness, group,
                                                   i, 0, world.metrics.shard(0)));
        }
        pool = pools.front().get();
    }

    std::uint16_t listen() {
        listeners.emplace_back(world.io,
                               asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
        return listeners.back().local_endpoint().port();
    }

    Server& next() {
        Server* const server = pool->choose({});
        REQUIRE(server != nullptr);
        return *server;
    }
    // With a seat that was taken. None: it is not decided yet.
    std::optional<ConnectFault> begin_connect(Server& server, Http1Stream& stream) {
        outcome.reset();
        spawn_vital(world.io.get_executor(),
                    [](Pooled& self, Server& to, Http1Stream& made) -> Task<> {
                        self.outcome = co_await self.pool->connect(to, self.sleeper, made);
                    }(*this, server, stream));
        settle(true);
        return outcome;
    }
    // False: no seat is free.
    bool connects(Server& server, Http1Stream& stream, const ActiveRequest& from) {
        if (!pool->take_seat(from)) return false;
        CHECK(begin_connect(server, stream) == ConnectFault::none);
        return true;
    }
    bool connects(Server& server, Http1Stream& stream) { return connects(server, stream, request); }
    // Whether the seat that it took is given back.
    bool cannot_reach(Server& server, ConnectFault fault = ConnectFault::unreachable) {
        const std::uint32_t taken = group->seats().taken();
        Http1Stream stream{world.buffers};
        REQUIRE(pool->take_seat(request));
        CHECK(begin_connect(server, stream) == fault);
        CHECK_FALSE(stream);
        return group->seats().taken() == taken;
    }
    // A connection to whichever server is next, idle in the pool.
    Server& make_idle() {
        Server& server = next();
        Http1Stream lease{world.buffers};
        REQUIRE(connects(server, lease));
        pool->give_back(lease);
        return server;
    }
    // Takes an idle connection, if there is one, and throws it away.
    bool takes_idle(Server& server) {
        Http1Stream stream{world.buffers};
        if (!pool->take_idle(server, stream)) return false;
        pool->throw_away(stream);
        return true;
    }
    std::uint32_t seats_taken() const { return group->seats().taken(); }
    // Runs what is ready; `wait`: also what the kernel will make so.
    void settle(bool wait = false) {
        world.io.restart();
        if (wait) world.io.run_one();
        while (world.io.poll() > 0) {
        }
    }

    World world;
    std::vector<asio::ip::tcp::acceptor> listeners;
    GroupPtr group;
    Sleeper sleeper{world.io.get_executor(), world.wheel};
    std::optional<ConnectFault> outcome;
    std::vector<std::unique_ptr<Pool>> pools;
    Pool* pool;  // of worker 0
    std::optional<IpAddress> no_address;
    std::vector<int> ipv6_prefixes{64};
    ActiveRequest request{no_address, ipv6_prefixes, [](void*) {}, nullptr};
};

Pooled::Change bounds(std::size_t connections, std::size_t idle) {
    return [=](config::Upstream& settings) {
        settings.max_connections = connections;
        settings.idle_connections = idle;
    };
}

// A request of one client that has a connection, whose body is slow to come.
struct Uploading {
    Uploading(Pooled& its_pool, const std::string& address, std::chrono::seconds since = 1s)
        : pooled(its_pool), client(parse_ip(address)) {
        REQUIRE(pooled.pool->admit(request));
        REQUIRE(pooled.connects(pooled.next(), lease, request));
        request.body.begin_wait(steady_now() - since, 1);
    }

    Pooled& pooled;
    std::optional<IpAddress> client;
    Http1Stream lease{pooled.world.buffers};
    ActiveRequest request{client, pooled.ipv6_prefixes,
                          [](void* self) {
                              Uploading& one = *static_cast<Uploading*>(self);
                              one.pooled.pool->evict(one.lease);
                          },
                          this};
};

// A request of one client that waits for a seat.
struct InLine {
    InLine(Pooled& pooled, const std::string& address, std::size_t worker = 0)
        : client(parse_ip(address)),
          prefixes(pooled.ipv6_prefixes),
          wakeup(pooled.world.io.get_executor()),
          wait(pooled.pools[worker]->make_wait(wakeup, request)),
          is_waiting(!pooled.pools[worker]->take_seat(request) &&
                     pooled.pools[worker]->begin_wait(wait)) {}

    std::optional<IpAddress> client;
    const std::vector<int>& prefixes;
    Wakeup wakeup;
    ActiveRequest request{client, prefixes, [](void*) {}, nullptr};
    SeatWait wait;
    bool is_waiting;
};

}  // namespace

TEST_CASE("pool: servers take turns by their weights, evenly spread") {
    Pooled pooled({4, 2, 1});
    std::map<const Server*, int> turns;
    const Server* last = nullptr;
    int longest = 0;
    int run = 0;
    for (int i = 0; i < 700; ++i) {
        const Server& server = pooled.next();
        ++turns[&server];
        run = &server == last ? run + 1 : 1;
        longest = std::max(longest, run);
        last = &server;
    }
    std::vector<int> counts;
    for (const auto& [server, count] : turns) counts.push_back(count);
    std::sort(counts.begin(), counts.end());
    CHECK(counts == std::vector<int>{100, 200, 400});
    CHECK(longest <= 2);
}

TEST_CASE("pool: the next try goes to another server, if there is one") {
    Pooled two({1, 1});
    for (int i = 0; i < 10; ++i) {
        const Server& first = two.next();
        CHECK(two.pool->choose({}, &first) != &first);
    }
    CHECK(two.pool->has_alternative());
    Pooled one({1});
    const Server& only = one.next();
    CHECK(one.pool->choose({}, &only) == &only);
    CHECK_FALSE(one.pool->has_alternative());
}

TEST_CASE("pool: a server that cannot be reached is left alone while there is another") {
    Pooled pooled({1, 1});
    Server& gone = pooled.next();
    for (auto& listener : pooled.listeners) listener.close();
    CHECK(pooled.cannot_reach(gone));
    for (int i = 0; i < 10; ++i) CHECK(&pooled.next() != &gone);
    CHECK(pooled.cannot_reach(pooled.next()));
    pooled.next();  // now that both failed, either may be tried
}

TEST_CASE("pool: a silent idle connection is used again, the last one first") {
    Pooled pooled({1});
    Server& server = pooled.make_idle();
    Http1Stream lease{pooled.world.buffers};
    REQUIRE(pooled.pool->take_idle(server, lease));
    CHECK(lease.is_reused());
    CHECK(&lease.server() == &server);
    CHECK_FALSE(pooled.takes_idle(server));
    pooled.pool->give_back(lease);
    CHECK(pooled.takes_idle(server));
}

TEST_CASE("pool: an idle connection on which the server spoke or closed is thrown away") {
    for (const bool speaks : {false, true}) {
        CAPTURE(speaks);
        Pooled pooled({1});
        Server& server = pooled.make_idle();
        auto far = pooled.listeners[0].accept();
        if (speaks) {
            far.send(asio::buffer("HTTP/1.1 200 OK\r\n\r\n", 19));
        } else {
            far.close();
        }
        pooled.settle(true);
        CHECK_FALSE(pooled.takes_idle(server));
    }
}

TEST_CASE("pool: a server that spoke in this turn is noticed before its connection is told") {
    Pooled pooled({1});
    Server& server = pooled.make_idle();
    auto far = pooled.listeners[0].accept();
    // A client's connection, told of in the same turn and before the server's.
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    const ConnectionPtr client(new Connection(pooled.world.readiness, ends[0]));
    pooled.settle();
    std::string into(10, '\0');
    CHECK(client->read_some(into).status == IoStatus::would_block);
    client->watch_read(&pooled.sleeper.wakeup());
    bool taken = true;
    spawn_vital(pooled.world.io.get_executor(),
                [](Pooled& self, Server& from, bool& outcome) -> Task<> {
                    co_await self.sleeper.sleep();
                    outcome = self.takes_idle(from);
                }(pooled, server, taken));
    pooled.settle();
    REQUIRE(::send(ends[1], "x", 1, MSG_NOSIGNAL) == 1);
    far.send(asio::buffer("HTTP/1.1 200 OK\r\n\r\n", 19));
    pooled.settle(true);
    CHECK_FALSE(taken);
    ::close(ends[1]);
}

TEST_CASE("pool: connections in use count against max_connections") {
    Pooled pooled({1}, bounds(1, 1));
    Server& server = pooled.next();
    Http1Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(server, lease));
    Http1Stream second{pooled.world.buffers};
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
    Http1Stream refused{pooled.world.buffers};
    CHECK_FALSE(pooled.connects(server, refused, first.request));

    Uploading other(pooled, "192.0.2.2");  // in the place of one of the two
    Uploading& left = first.lease.is_evicted() ? first : second;
    Uploading& stays = first.lease.is_evicted() ? second : first;
    REQUIRE(left.lease.is_evicted());
    CHECK_FALSE(left.lease.connection()->is_open());
    CHECK_FALSE(stays.lease.is_evicted());
    CHECK_FALSE(pooled.connects(server, refused));

    // Given back as if nothing had happened: neither is it idle, nor is another one's place free.
    pooled.pool->give_back(left.lease);
    CHECK_FALSE(left.lease);
    CHECK_FALSE(pooled.takes_idle(server));
    CHECK_FALSE(pooled.connects(server, refused));
    pooled.pool->give_back(other.lease);
    pooled.pool->throw_away(stays.lease);
    Http1Stream lease{pooled.world.buffers};
    CHECK(pooled.pool->take_idle(server, lease));
    CHECK(pooled.connects(server, refused));
    Http1Stream third{pooled.world.buffers};
    CHECK_FALSE(pooled.connects(server, third));
}

TEST_CASE("pool: an idle connection to one server makes room for one to another") {
    Pooled pooled({1, 1}, bounds(1, 1));
    Server& first = pooled.make_idle();
    Server& second = pooled.next();
    REQUIRE(&first != &second);
    Http1Stream lease{pooled.world.buffers};
    CHECK(pooled.connects(second, lease));
    CHECK_FALSE(pooled.takes_idle(first));
}

TEST_CASE("pool: no more idle connections than allowed, over all servers") {
    Pooled pooled({1, 1, 1}, bounds(512, 2));
    std::vector<Server*> servers;
    for (int i = 0; i < 3; ++i) servers.push_back(&pooled.make_idle());
    int idle = 0;
    for (Server* server : servers) idle += pooled.takes_idle(*server) ? 1 : 0;
    CHECK(idle == 2);
}

TEST_CASE("pool: sweep() closes what is idle for too long, and nothing else") {
    Pooled pooled({1}, [](config::Upstream& settings) { settings.idle_timeout = 10s; });
    Server& server = pooled.make_idle();
    const SteadyTime now = steady_now();
    pooled.pool->sweep(now + 9s);
    Http1Stream lease{pooled.world.buffers};
    CHECK(pooled.pool->take_idle(server, lease));
    pooled.pool->give_back(lease);
    pooled.pool->sweep(steady_now() + 10s);
    CHECK_FALSE(pooled.takes_idle(server));
}

TEST_CASE("pool: a stopped pool keeps nothing idle") {
    Pooled pooled({1});
    Server& server = pooled.make_idle();
    Http1Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(server, lease));
    pooled.pool->stop();
    CHECK_FALSE(pooled.takes_idle(server));
    pooled.pool->give_back(lease);
    CHECK_FALSE(pooled.takes_idle(server));
}

TEST_CASE("pool: a stopped pool still connects for its requests") {
    Pooled pooled({1});
    Server& server = pooled.next();
    pooled.pool->stop();
    Http1Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(server, lease));
    CHECK(server.address().starts_with("127.0.0.1:"));
    CHECK(pooled.pool->settings().name == "api");
    pooled.pool->give_back(lease);
    CHECK_FALSE(lease);
    CHECK_FALSE(pooled.takes_idle(server));
}

TEST_CASE("pool: a server that does not take the connection in time gives its seat back") {
    Pooled pooled({1});
    Server& server = pooled.next();
    // The kernel leaves a connection unanswered that the queue of the listener has no place for.
    pooled.listeners[0].listen(0);
    std::vector<std::unique_ptr<Http1Stream>> leases;
    do {
        leases.push_back(std::make_unique<Http1Stream>(pooled.world.buffers));
        REQUIRE(leases.size() < 10);
        REQUIRE(pooled.pool->take_seat(pooled.request));
    } while (pooled.begin_connect(server, *leases.back()) == ConnectFault::none);
    CHECK(pooled.seats_taken() == leases.size());
    REQUIRE_FALSE(pooled.outcome);
    pooled.world.wheel.advance(SteadyTime{} + 10s);
    pooled.settle();
    CHECK(pooled.outcome == ConnectFault::timeout);
    CHECK_FALSE(*leases.back());
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

    Http1Stream lease{pooled.world.buffers};
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
    Http1Stream first{pooled.world.buffers};
    Http1Stream second{pooled.world.buffers};
    REQUIRE(pooled.connects(pooled.next(), first));
    REQUIRE(pooled.connects(pooled.next(), second));
    CHECK_FALSE(pooled.pools[1]->take_seat(pooled.request));
    pooled.pool->throw_away(first);
    CHECK(pooled.pools[1]->take_seat(pooled.request));
    CHECK_FALSE(pooled.pool->take_seat(pooled.request));
}

TEST_CASE("pool: no server may be chosen when all are unhealthy, or no name has led to one yet") {
    Pooled pooled({1, 1}, [](config::Upstream& settings) { settings.health_check.emplace(); });
    for (const auto& server : pooled.group->servers()) {
        pooled.group->note_check(*server, "it answers 500");
    }
    CHECK(pooled.pool->choose({}) == nullptr);
    CHECK(pooled.pool->has_server());

    Pooled lone({1}, [](config::Upstream& settings) { settings.health_check.emplace(); });
    lone.group->note_check(*lone.group->servers()[0], "it answers 500");
    CHECK(lone.pool->choose({}) == nullptr);

    Pooled named({}, [](config::Upstream& settings) {
        settings.servers.push_back(server_at("a.test", 81));
    });
    CHECK(named.pool->choose({}) == nullptr);
    CHECK_FALSE(named.pool->has_server());
    named.group->resolved(0, {endpoint_at("192.0.2.1", 81)});
    CHECK(named.next().address() == "192.0.2.1:81");
    CHECK(named.pool->has_server());
}

TEST_CASE("pool: follows the group: what leads nowhere any more gets nothing and keeps nothing") {
    Pooled pooled({}, [](config::Upstream& settings) {
        settings.servers.push_back(server_at("a.test", 81));
    });
    const auto at = [&] { return endpoint_at("127.0.0.1", pooled.listen()); };
    const auto before = at();
    pooled.group->resolved(0, {before});
    const ServerPtr server = &pooled.make_idle();
    Http1Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(*server, lease));
    Http1Stream other{pooled.world.buffers};
    REQUIRE(pooled.connects(*server, other));
    CHECK(pooled.seats_taken() == 3);

    const auto after = at();
    pooled.group->resolved(0, {after});
    pooled.pool->give_back(lease);  // the pool has not followed yet
    CHECK(pooled.seats_taken() == 2);
    Server& next = pooled.next();
    CHECK(&next != server.get());
    CHECK(next.shared().endpoint == after);
    CHECK(pooled.seats_taken() == 1);  // without the idle one
    CHECK(server->idle_count() == 0);
    CHECK(&other.server() == server.get());
    pooled.pool->give_back(other);
    CHECK(pooled.seats_taken() == 0);
    CHECK(server->idle_count() == 0);

    // A server that stays keeps its idle connections.
    Server& stays = pooled.make_idle();
    pooled.group->resolved(0, {after, at()});
    pooled.pool->sweep(steady_now());
    CHECK(pooled.takes_idle(stays));
}

TEST_CASE("pool: requests in flight are counted on each server until they end") {
    for (const auto balance : {config::Balance::round_robin, config::Balance::least_connections}) {
        Pooled pooled(
            {1, 1}, [&](config::Upstream& settings) { settings.balance = balance; }, 2);
        const bool is_counted = balance == config::Balance::least_connections;
        CHECK(pooled.pool->is_counted() == is_counted);
        Server& one = pooled.next();
        Server* const other = pooled.pools[1]->choose({}, nullptr);
        one.begin_request(is_counted);
        one.begin_request(is_counted);
        other->begin_request(is_counted);
        CHECK(pooled.pool->count_active() == 3);
        CHECK(pooled.pools[1]->count_active() == 3);
        one.end_request(is_counted);
        one.end_request(is_counted);
        other->end_request(is_counted);
        CHECK(pooled.pool->count_active() == 0);
        for (const auto& server : pooled.group->servers()) CHECK(server->state.active() == 0);
    }
}

TEST_CASE("pool: make_room() closes an idle connection for a request of another worker") {
    Pooled pooled({1, 1}, bounds(1, 1), 2);
    Server& idle = pooled.make_idle();
    pooled.pool->make_room(steady_now());
    CHECK(idle.idle_count() == 1);  // nobody waits
    InLine waiting(pooled, "192.0.2.1", 1);
    REQUIRE(waiting.is_waiting);
    CHECK_FALSE(waiting.wait.accept());
    pooled.pool->make_room(steady_now());
    CHECK(waiting.wait.accept());
    CHECK(idle.idle_count() == 0);
    CHECK(pooled.seats_taken() == 1);
}

TEST_CASE("pool: make_room() evicts an upload that is slow for anybody, for another worker") {
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

TEST_CASE("pool: the line is as long as `queue` allows, and a seat goes to the first of it") {
    Pooled pooled({1}, [](config::Upstream& settings) {
        settings.max_connections = 1;
        settings.queue.max = 2;
    });
    Http1Stream lease{pooled.world.buffers};
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
    CHECK_FALSE(pooled.pool->take_seat(third.request));  // past the line
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

TEST_CASE("pool: an address that fills the line makes room for others, the last of it first") {
    Pooled pooled({1}, [](config::Upstream& settings) {
        settings.max_connections = 1;
        settings.queue.max = 8;  // two places are a share
    });
    Http1Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connects(pooled.next(), lease));
    std::vector<std::unique_ptr<InLine>> crowd;
    for (int i = 0; i < 8; ++i) {
        crowd.push_back(std::make_unique<InLine>(pooled, "192.0.2.1"));
        REQUIRE(crowd.back()->is_waiting);
    }
    CHECK_FALSE(InLine(pooled, "192.0.2.1").is_waiting);  // not for itself
    CHECK(pooled.group->seats().waiting() == 8);

    // All in one turn, before any that is pushed out has noticed.
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

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "unit/proxy_world.hpp"

using namespace tidegate;
using namespace tidegate::proxy;
using ConnectFault = UpstreamPool::ConnectFault;

namespace {

// Servers that only listen, and a pool of connections to them.
struct Pooled {
    explicit Pooled(std::vector<int> weights, const std::string& more = "") {
        std::string servers;
        for (const int weight : weights) {
            listeners.emplace_back(world.io,
                                   asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
            servers += (servers.empty() ? "" : ", ") + std::string("{url: \"http://127.0.0.1:") +
                       std::to_string(listeners.back().local_endpoint().port()) +
                       "\", weight: " + std::to_string(weight) + "}";
        }
        config = load("upstreams: {api: {servers: [" + servers + "]" + more +
                      "}}\nroutes: [{name: all, match: {path: \"/**\"}, upstream: api, "
                      "policies: []}]\n");
        pool.emplace(world.io.get_executor(), world.readiness, config->upstreams[0], 0, 1,
                     world.metrics.shard(0));
    }

    ConnectFault connect(UpstreamServer& server, UpstreamLease& lease) {
        return connect(server, lease, seat);
    }
    ConnectFault connect(UpstreamServer& server, UpstreamLease& lease, UpstreamSeat& from) {
        ConnectFault fault = ConnectFault::unreachable;
        spawn_vital(world.io.get_executor(),
                    [](Pooled& self, UpstreamServer& to, UpstreamLease& made, UpstreamSeat& asking,
                       ConnectFault& outcome) -> Task<> {
                        outcome = co_await self.pool->connect(to, self.sleeper, made, asking);
                    }(*this, server, lease, from, fault));
        settle(true);
        return fault;
    }
    // A connection to whichever server is next, idle in the pool.
    UpstreamServer& make_idle() {
        UpstreamServer& server = pool->next_server();
        UpstreamLease lease;
        REQUIRE(connect(server, lease) == ConnectFault::none);
        pool->give_back(lease);
        return server;
    }
    // Runs what is ready; `wait`: also what the kernel will make so.
    void settle(bool wait = false) {
        world.io.restart();
        if (wait) world.io.run_one();
        while (world.io.poll() > 0) {
        }
    }

    World world;
    std::vector<asio::ip::tcp::acceptor> listeners;
    std::shared_ptr<const config::Config> config;
    Sleeper sleeper{world.io.get_executor(), world.wheel};
    std::optional<UpstreamPool> pool;
    std::optional<IpAddress> nobody;
    identity::ClientIpSettings addresses;
    UpstreamSeat seat{nobody, addresses, [](void*) {}, nullptr};
};

// A request of one client that has a connection, whose body is slow to come.
struct Uploading {
    Uploading(Pooled& its_pool, const std::string& address)
        : pooled(its_pool), client(parse_ip(address)) {
        REQUIRE(pooled.pool->admit(seat));
        REQUIRE(pooled.connect(pooled.pool->next_server(), lease, seat) == ConnectFault::none);
        seat.body.begin_turn(std::chrono::steady_clock::now() - std::chrono::seconds{1}, 1);
    }

    Pooled& pooled;
    std::optional<IpAddress> client;
    UpstreamLease lease;
    UpstreamSeat seat{client, pooled.addresses,
                      [](void* self) {
                          Uploading& one = *static_cast<Uploading*>(self);
                          one.pooled.pool->withdraw(one.lease);
                      },
                      this};
};

}  // namespace

TEST_CASE("upstream_pool: servers take turns by their weights, evenly spread") {
    Pooled pooled({4, 2, 1});
    std::map<const UpstreamServer*, int> turns;
    const UpstreamServer* last = nullptr;
    int longest = 0;
    int run = 0;
    for (int i = 0; i < 700; ++i) {
        const UpstreamServer& server = pooled.pool->next_server();
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

TEST_CASE("upstream_pool: the next try goes to another server, if there is one") {
    Pooled two({1, 1});
    for (int i = 0; i < 10; ++i) {
        const UpstreamServer& first = two.pool->next_server();
        CHECK(&two.pool->next_server(&first) != &first);
    }
    Pooled one({1});
    const UpstreamServer& only = one.pool->next_server();
    CHECK(&one.pool->next_server(&only) == &only);
}

TEST_CASE("upstream_pool: a server that cannot be reached is left alone while there is another") {
    Pooled pooled({1, 1});
    UpstreamServer& gone = pooled.pool->next_server();
    for (auto& listener : pooled.listeners) listener.close();
    UpstreamLease lease;
    CHECK(pooled.connect(gone, lease) == ConnectFault::unreachable);
    CHECK_FALSE(lease);
    for (int i = 0; i < 10; ++i) CHECK(&pooled.pool->next_server() != &gone);
    UpstreamServer& other = pooled.pool->next_server();
    CHECK(pooled.connect(other, lease) == ConnectFault::unreachable);
    pooled.pool->next_server();  // now that both failed, either may be tried
}

TEST_CASE("upstream_pool: a silent idle connection is used again, the last one first") {
    Pooled pooled({1});
    UpstreamServer& server = pooled.make_idle();
    UpstreamLease lease = pooled.pool->take_idle(server);
    REQUIRE(lease);
    CHECK(lease.reused);
    CHECK(lease.server == &server);
    CHECK_FALSE(pooled.pool->take_idle(server));
    pooled.pool->give_back(lease);
    CHECK(pooled.pool->take_idle(server));
}

TEST_CASE("upstream_pool: an idle connection on which the server spoke or closed is thrown away") {
    for (const bool speaks : {false, true}) {
        CAPTURE(speaks);
        Pooled pooled({1});
        UpstreamServer& server = pooled.make_idle();
        auto far = pooled.listeners[0].accept();
        if (speaks) {
            far.send(asio::buffer("HTTP/1.1 200 OK\r\n\r\n", 19));
        } else {
            far.close();
        }
        pooled.settle(true);
        CHECK_FALSE(pooled.pool->take_idle(server));
    }
}

TEST_CASE("upstream_pool: what the loop has fetched but not told yet is heeded as well") {
    Pooled pooled({1});
    UpstreamServer& server = pooled.make_idle();
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
                [](Pooled& self, UpstreamServer& from, bool& outcome) -> Task<> {
                    co_await self.sleeper.sleep();
                    outcome = static_cast<bool>(self.pool->take_idle(from));
                }(pooled, server, taken));
    pooled.settle();
    REQUIRE(::send(ends[1], "x", 1, MSG_NOSIGNAL) == 1);
    far.send(asio::buffer("HTTP/1.1 200 OK\r\n\r\n", 19));
    pooled.settle(true);
    CHECK_FALSE(taken);
    ::close(ends[1]);
}

TEST_CASE("upstream_pool: no more connections than allowed, those in use included") {
    Pooled pooled({1}, ", max_connections: 1, idle_connections: 1");
    UpstreamServer& server = pooled.pool->next_server();
    UpstreamLease lease;
    REQUIRE(pooled.connect(server, lease) == ConnectFault::none);
    UpstreamLease second;
    CHECK(pooled.connect(server, second) == ConnectFault::exhausted);
    pooled.pool->throw_away(lease);
    CHECK_FALSE(lease);
    CHECK(pooled.connect(server, second) == ConnectFault::none);
}

TEST_CASE(
    "upstream_pool: a request that makes room is counted out once, and nothing of it is kept") {
    Pooled pooled({1}, ", max_connections: 2, idle_connections: 2");
    UpstreamServer& server = pooled.pool->next_server();
    Uploading first(pooled, "192.0.2.1");
    Uploading second(pooled, "192.0.2.1");
    UpstreamLease refused;
    CHECK(pooled.connect(server, refused, first.seat) == ConnectFault::exhausted);

    Uploading other(pooled, "192.0.2.2");  // in the place of one of the two
    Uploading& left = first.lease.withdrawn ? first : second;
    Uploading& stays = first.lease.withdrawn ? second : first;
    REQUIRE(left.lease.withdrawn);
    CHECK_FALSE(left.lease.connection->is_open());
    CHECK_FALSE(stays.lease.withdrawn);
    CHECK(pooled.connect(server, refused) == ConnectFault::exhausted);

    // Given back as if nothing had happened: neither is it idle, nor is another one's place free.
    pooled.pool->give_back(left.lease);
    CHECK_FALSE(left.lease);
    CHECK_FALSE(pooled.pool->take_idle(server));
    CHECK(pooled.connect(server, refused) == ConnectFault::exhausted);
    pooled.pool->give_back(other.lease);
    pooled.pool->throw_away(stays.lease);
    UpstreamLease lease = pooled.pool->take_idle(server);
    CHECK(lease);
    CHECK(pooled.connect(server, refused) == ConnectFault::none);
    UpstreamLease third;
    CHECK(pooled.connect(server, third) == ConnectFault::exhausted);
}

TEST_CASE("upstream_pool: an idle connection to one server makes room for one to another") {
    Pooled pooled({1, 1}, ", max_connections: 1, idle_connections: 1");
    UpstreamServer& first = pooled.make_idle();
    UpstreamServer& second = pooled.pool->next_server();
    REQUIRE(&first != &second);
    UpstreamLease lease;
    CHECK(pooled.connect(second, lease) == ConnectFault::none);
    CHECK_FALSE(pooled.pool->take_idle(first));
}

TEST_CASE("upstream_pool: no more idle connections than allowed, over all servers") {
    Pooled pooled({1, 1, 1}, ", idle_connections: 2");
    std::vector<UpstreamServer*> servers;
    for (int i = 0; i < 3; ++i) servers.push_back(&pooled.make_idle());
    int idle = 0;
    for (UpstreamServer* server : servers) idle += pooled.pool->take_idle(*server) ? 1 : 0;
    CHECK(idle == 2);
}

TEST_CASE("upstream_pool: what is idle for too long goes, what is not stays") {
    Pooled pooled({1}, ", timeouts: {idle: 10s}");
    UpstreamServer& server = pooled.make_idle();
    const SteadyTime now = std::chrono::steady_clock::now();
    pooled.pool->sweep(now + std::chrono::seconds{9});
    UpstreamLease lease = pooled.pool->take_idle(server);
    CHECK(lease);
    pooled.pool->give_back(lease);
    pooled.pool->sweep(std::chrono::steady_clock::now() + std::chrono::seconds{10});
    CHECK_FALSE(pooled.pool->take_idle(server));
}

TEST_CASE("upstream_pool: once it is stopped nothing stays idle") {
    Pooled pooled({1});
    UpstreamServer& server = pooled.make_idle();
    UpstreamLease lease;
    REQUIRE(pooled.connect(server, lease) == ConnectFault::none);
    pooled.pool->stop();
    CHECK_FALSE(pooled.pool->take_idle(server));
    pooled.pool->give_back(lease);
    CHECK_FALSE(pooled.pool->take_idle(server));
}

TEST_CASE("upstream_pool: what one knows of names another learns, unless it knows better") {
    const auto with_names = [](World& world) {
        const auto config = load(
            "upstreams: {api: {servers: [http://a.test:81, http://b.test:82]}}\n"
            "routes: [{name: all, upstream: api, policies: []}]\n");
        return std::make_unique<UpstreamPool>(world.io.get_executor(), world.readiness,
                                              config->upstreams[0], 0, 1, world.metrics.shard(0));
    };
    const auto at = [](const char* ip, std::uint16_t port) {
        return std::vector<StreamProtocol::endpoint>{
            asio::ip::tcp::endpoint(asio::ip::make_address(ip), port)};
    };
    World world;
    const auto first = with_names(world);
    first->learn({{"a.test:81", at("192.0.2.1", 81)}});
    KnownAddresses known{{"c.test:83", at("192.0.2.3", 83)}};
    first->tell(known);
    CHECK(known.size() == 2);

    const auto second = with_names(world);
    second->learn({{"a.test:81", at("192.0.2.9", 81)}, {"a.test:82", at("192.0.2.9", 82)}});
    second->learn(known);
    KnownAddresses told;
    second->tell(told);
    CHECK(told.size() == 1);
    CHECK(told.at("a.test:81") == at("192.0.2.9", 81));
}

TEST_CASE(
    "upstream_pool: who holds one that was stopped can still connect, with no configuration") {
    Pooled pooled({1});
    UpstreamServer& server = pooled.pool->next_server();
    pooled.pool->stop();
    pooled.config.reset();
    UpstreamLease lease;
    REQUIRE(pooled.connect(server, lease) == ConnectFault::none);
    CHECK(server.address().starts_with("127.0.0.1:"));
    CHECK(pooled.pool->settings().name == "api");
    pooled.pool->give_back(lease);
    CHECK_FALSE(lease);
    CHECK_FALSE(pooled.pool->take_idle(server));
}

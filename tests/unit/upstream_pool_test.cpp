#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "net/deadline.hpp"
#include "telemetry/metrics.hpp"
#include "upstream/pool.hpp"

using namespace tidegate;
using namespace tidegate::upstream;
using ConnectFault = Pool::ConnectFault;

namespace {

std::shared_ptr<const config::Config> load(const std::string& yaml) {
    auto loaded = config::load_text(yaml, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return loaded.config;
}

struct World {
    asio::io_context io{1};
    Readiness readiness{io};
    telemetry::Metrics metrics{{}, {}, 1, "test"};
    DeadlineWheel wheel{SteadyTime{}};
    BufferPool buffers;
};

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

    ConnectFault connect(Server& server, Http1Stream& stream) {
        return connect(server, stream, request);
    }
    ConnectFault connect(Server& server, Http1Stream& stream, ActiveRequest& from) {
        ConnectFault fault = ConnectFault::unreachable;
        spawn_vital(world.io.get_executor(),
                    [](Pooled& self, Server& to, Http1Stream& made, ActiveRequest& asking,
                       ConnectFault& outcome) -> Task<> {
                        outcome = co_await self.pool->connect(to, self.sleeper, made, asking);
                    }(*this, server, stream, from, fault));
        settle(true);
        return fault;
    }
    // A connection to whichever server is next, idle in the pool.
    Server& make_idle() {
        Server& server = pool->next_server();
        Http1Stream lease{world.buffers};
        REQUIRE(connect(server, lease) == ConnectFault::none);
        pool->give_back(lease);
        return server;
    }
    // Takes an idle connection, if there is one, for good.
    bool takes_idle(Server& server) {
        Http1Stream stream{world.buffers};
        return pool->take_idle(server, stream);
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
    std::optional<Pool> pool;
    std::optional<IpAddress> no_address;
    std::vector<int> ipv6_prefixes{64};
    ActiveRequest request{no_address, ipv6_prefixes, [](void*) {}, nullptr};
};

// A request of one client that has a connection, whose body is slow to come.
struct Uploading {
    Uploading(Pooled& its_pool, const std::string& address)
        : pooled(its_pool), client(parse_ip(address)) {
        REQUIRE(pooled.pool->admit(request));
        REQUIRE(pooled.connect(pooled.pool->next_server(), lease, request) == ConnectFault::none);
        request.body.begin_wait(std::chrono::steady_clock::now() - std::chrono::seconds{1}, 1);
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

}  // namespace

TEST_CASE("pool: servers take turns by their weights, evenly spread") {
    Pooled pooled({4, 2, 1});
    std::map<const Server*, int> turns;
    const Server* last = nullptr;
    int longest = 0;
    int run = 0;
    for (int i = 0; i < 700; ++i) {
        const Server& server = pooled.pool->next_server();
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
        const Server& first = two.pool->next_server();
        CHECK(&two.pool->next_server(&first) != &first);
    }
    Pooled one({1});
    const Server& only = one.pool->next_server();
    CHECK(&one.pool->next_server(&only) == &only);
}

TEST_CASE("pool: a server that cannot be reached is left alone while there is another") {
    Pooled pooled({1, 1});
    Server& gone = pooled.pool->next_server();
    for (auto& listener : pooled.listeners) listener.close();
    Http1Stream lease{pooled.world.buffers};
    CHECK(pooled.connect(gone, lease) == ConnectFault::unreachable);
    CHECK_FALSE(lease);
    for (int i = 0; i < 10; ++i) CHECK(&pooled.pool->next_server() != &gone);
    Server& other = pooled.pool->next_server();
    CHECK(pooled.connect(other, lease) == ConnectFault::unreachable);
    pooled.pool->next_server();  // now that both failed, either may be tried
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
    Pooled pooled({1}, ", max_connections: 1, idle_connections: 1");
    Server& server = pooled.pool->next_server();
    Http1Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connect(server, lease) == ConnectFault::none);
    Http1Stream second{pooled.world.buffers};
    CHECK(pooled.connect(server, second) == ConnectFault::exhausted);
    pooled.pool->throw_away(lease);
    CHECK_FALSE(lease);
    CHECK(pooled.connect(server, second) == ConnectFault::none);
}

TEST_CASE("pool: an evicted connection is uncounted once, and never kept") {
    Pooled pooled({1}, ", max_connections: 2, idle_connections: 2");
    Server& server = pooled.pool->next_server();
    Uploading first(pooled, "192.0.2.1");
    Uploading second(pooled, "192.0.2.1");
    Http1Stream refused{pooled.world.buffers};
    CHECK(pooled.connect(server, refused, first.request) == ConnectFault::exhausted);

    Uploading other(pooled, "192.0.2.2");  // in the place of one of the two
    Uploading& left = first.lease.is_evicted() ? first : second;
    Uploading& stays = first.lease.is_evicted() ? second : first;
    REQUIRE(left.lease.is_evicted());
    CHECK_FALSE(left.lease.connection()->is_open());
    CHECK_FALSE(stays.lease.is_evicted());
    CHECK(pooled.connect(server, refused) == ConnectFault::exhausted);

    // Given back as if nothing had happened: neither is it idle, nor is another one's place free.
    pooled.pool->give_back(left.lease);
    CHECK_FALSE(left.lease);
    CHECK_FALSE(pooled.takes_idle(server));
    CHECK(pooled.connect(server, refused) == ConnectFault::exhausted);
    pooled.pool->give_back(other.lease);
    pooled.pool->throw_away(stays.lease);
    Http1Stream lease{pooled.world.buffers};
    CHECK(pooled.pool->take_idle(server, lease));
    CHECK(pooled.connect(server, refused) == ConnectFault::none);
    Http1Stream third{pooled.world.buffers};
    CHECK(pooled.connect(server, third) == ConnectFault::exhausted);
}

TEST_CASE("pool: an idle connection to one server makes room for one to another") {
    Pooled pooled({1, 1}, ", max_connections: 1, idle_connections: 1");
    Server& first = pooled.make_idle();
    Server& second = pooled.pool->next_server();
    REQUIRE(&first != &second);
    Http1Stream lease{pooled.world.buffers};
    CHECK(pooled.connect(second, lease) == ConnectFault::none);
    CHECK_FALSE(pooled.takes_idle(first));
}

TEST_CASE("pool: no more idle connections than allowed, over all servers") {
    Pooled pooled({1, 1, 1}, ", idle_connections: 2");
    std::vector<Server*> servers;
    for (int i = 0; i < 3; ++i) servers.push_back(&pooled.make_idle());
    int idle = 0;
    for (Server* server : servers) idle += pooled.takes_idle(*server) ? 1 : 0;
    CHECK(idle == 2);
}

TEST_CASE("pool: sweep() closes what is idle for too long, and nothing else") {
    Pooled pooled({1}, ", timeouts: {idle: 10s}");
    Server& server = pooled.make_idle();
    const SteadyTime now = std::chrono::steady_clock::now();
    pooled.pool->sweep(now + std::chrono::seconds{9});
    Http1Stream lease{pooled.world.buffers};
    CHECK(pooled.pool->take_idle(server, lease));
    pooled.pool->give_back(lease);
    pooled.pool->sweep(std::chrono::steady_clock::now() + std::chrono::seconds{10});
    CHECK_FALSE(pooled.takes_idle(server));
}

TEST_CASE("pool: a stopped pool keeps nothing idle") {
    Pooled pooled({1});
    Server& server = pooled.make_idle();
    Http1Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connect(server, lease) == ConnectFault::none);
    pooled.pool->stop();
    CHECK_FALSE(pooled.takes_idle(server));
    pooled.pool->give_back(lease);
    CHECK_FALSE(pooled.takes_idle(server));
}

TEST_CASE("pool: a pool uses names that another resolved, unless it resolved them itself") {
    const auto with_names = [](World& world) {
        const auto config = load(
            "upstreams: {api: {servers: [http://a.test:81, http://b.test:82]}}\n"
            "routes: [{name: all, upstream: api, policies: []}]\n");
        return std::make_unique<Pool>(world.io.get_executor(), world.readiness,
                                      config->upstreams[0], 0, 1, world.metrics.shard(0));
    };
    const auto at = [](const char* ip, std::uint16_t port) {
        return std::vector<StreamProtocol::endpoint>{
            asio::ip::tcp::endpoint(asio::ip::make_address(ip), port)};
    };
    World world;
    const auto first = with_names(world);
    first->resolver().use({{"a.test:81", at("192.0.2.1", 81)}});
    ResolvedNames known{{"c.test:83", at("192.0.2.3", 83)}};
    first->resolver().add_to(known);
    CHECK(known.size() == 2);

    const auto second = with_names(world);
    second->resolver().use(
        {{"a.test:81", at("192.0.2.9", 81)}, {"a.test:82", at("192.0.2.9", 82)}});
    second->resolver().use(known);
    ResolvedNames told;
    second->resolver().add_to(told);
    CHECK(told.size() == 1);
    CHECK(told.at("a.test:81") == at("192.0.2.9", 81));
}

TEST_CASE("pool: a stopped pool still connects for its requests, without the configuration") {
    Pooled pooled({1});
    Server& server = pooled.pool->next_server();
    pooled.pool->stop();
    pooled.config.reset();
    Http1Stream lease{pooled.world.buffers};
    REQUIRE(pooled.connect(server, lease) == ConnectFault::none);
    CHECK(server.address().starts_with("127.0.0.1:"));
    CHECK(pooled.pool->settings().name == "api");
    pooled.pool->give_back(lease);
    CHECK_FALSE(lease);
    CHECK_FALSE(pooled.takes_idle(server));
}

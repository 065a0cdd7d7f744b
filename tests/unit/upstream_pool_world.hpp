// Servers that only listen, and pools of connections to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "upstream/metrics.hpp"
#include "upstream/pool.hpp"
#include "upstream_world.hpp"

namespace tidegate::upstream {

struct PoolWorld {
    asio::io_context io{1};
    Readiness readiness{io};
    Metrics metrics{1};
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
            const Pool::Loop loop{world.io.get_executor(), world.readiness, world.wheel,
                                  world.buffers, world.metrics};
            pools.push_back(std::make_unique<Pool>(loop, group, i, 0));
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
    // With `seat`, which a connection that fails leaves. None: it is not decided yet.
    std::optional<ConnectFault> begin_connect(Server& server, Stream& stream) {
        outcome.reset();
        spawn_vital(world.io.get_executor(), [](Pooled& self, Server& to, Stream& made) -> Task<> {
            const std::function<bool()> has_left = [&self] { return self.client_left; };
            self.outcome = co_await self.pool->connect(to, self.sleeper, made, self.seat, has_left,
                                                       {self.pool->settings().connect_timeout});
        }(*this, server, stream));
        settle(true);
        return outcome;
    }
    // False: no seat is free.
    bool connects(Server& server, Stream& stream, const ActiveRequest& from) {
        seat = pool->take_seat(from);
        if (!seat) return false;
        CHECK(begin_connect(server, stream) == ConnectFault::none);
        return true;
    }
    bool connects(Server& server, Stream& stream) { return connects(server, stream, request); }
    // Whether the owner keeps the seat, and gives it back.
    bool cannot_reach(Server& server, ConnectFault fault = ConnectFault::unreachable) {
        const std::uint32_t taken = group->seats().taken();
        Stream stream{world.buffers};
        seat = pool->take_seat(request);
        REQUIRE(seat);
        CHECK(begin_connect(server, stream) == fault);
        CHECK_FALSE(stream);
        const bool is_kept = group->seats().taken() == taken + 1;
        seat = Seat();
        return is_kept && group->seats().taken() == taken;
    }
    // A connection to whichever server is next, idle in the pool.
    Server& make_idle() {
        Server& server = next();
        Stream lease{world.buffers};
        REQUIRE(connects(server, lease));
        pool->give_back(lease);
        return server;
    }
    // Takes an idle connection, if there is one, and throws it away.
    bool takes_idle(Server& server) {
        Stream stream{world.buffers};
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

    PoolWorld world;
    std::vector<asio::ip::tcp::acceptor> listeners;
    GroupPtr group;
    Sleeper sleeper{world.io.get_executor(), world.wheel};
    std::optional<ConnectFault> outcome;
    bool client_left = false;  // that of the request that connects
    Seat seat;                 // before the pools: its group outlives it
    std::vector<std::unique_ptr<Pool>> pools;
    Pool* pool;  // of worker 0
    std::optional<IpAddress> no_address;
    IpPrefixes prefixes;
    ActiveRequest request{no_address, prefixes, [](void*) {}, nullptr};
};

inline Pooled::Change bounds(std::size_t connections, std::size_t idle) {
    return [=](config::Upstream& settings) {
        settings.max_connections = connections;
        settings.idle_connections = idle;
    };
}

}  // namespace tidegate::upstream

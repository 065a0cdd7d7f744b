// Requests as the proxy holds them, made by hand: no socket is open, no time passes.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "net/readiness.hpp"
#include "proxy/exchange.hpp"
#include "proxy/heads.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::proxy {

using ask::Fault;
using ask::get;
using ask::has;
using ask::load;

struct World {
    explicit World(const std::string& yaml = "upstream: http://127.0.0.1:3000\n")
        : metrics(ask::names_of(*ask::load(yaml)), {}, 1, "test"),
          limiter(memory, metrics.shard(0)) {
        reload(yaml);
    }

    // Without upstreams: nothing is forwarded here.
    void reload(const std::string& yaml) {
        const boost::intrusive_ptr<Generation> made(new Generation(ask::load(yaml)));
        made->slots = *metrics.admit(ask::names_of(*made->config));
        generation = made;
    }

    asio::io_context io{1};
    Readiness readiness{io};
    GenerationPtr generation;
    telemetry::Metrics metrics;
    store::MemoryStore memory{store::MemoryStore::Options{}};
    store::Limiter limiter;
    Wakeup wakeup{io.get_executor()};  // in process nothing is waited for
    DeadlineWheel wheel{SteadyTime{}};
    BufferPool buffers;
};

struct Request {
    Request(World& the_world, std::string head, bool trusted = false,
            const std::string& peer = "203.0.113.7")
        : world(the_world),
          bytes(std::move(head)),
          exchange(world.io.get_executor(), world.wheel, world.buffers) {
        exchange.generation = world.generation;
        ask::read_facts(*exchange.generation, bytes, {*parse_ip(peer), trusted}, exchange.facts,
                        exchange.client.framing, exchange.decision);
        exchange.facts.local_port = 8080;
        exchange.client.keep_alive = exchange.client.framing.keep_alive;
    }

    Fault decide() {
        return ask::take_steps(*exchange.generation, exchange.facts, exchange.decision);
    }
    // Asks the store in process.
    void charge() {
        REQUIRE(decide() == Fault::none);
        world.limiter.decide(exchange.decision.charge, world.wakeup);
        ask::apply_verdict(*exchange.generation, world.metrics.shard(0), exchange.decision);
    }

    // As the upstream gets it.
    std::string forwarded() {
        REQUIRE(decide() == Fault::none);
        return write_request_head(exchange, "127.0.0.1:3000");
    }

    World& world;
    std::string bytes;
    Exchange exchange;
};

}  // namespace tidegate::proxy

// Requests as the proxy holds them, made by hand: no socket is open, no time passes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "client/metrics.hpp"
#include "client/stream.hpp"
#include "net/connection.hpp"
#include "proxy/exchange.hpp"
#include "proxy/fault_answer.hpp"
#include "proxy/heads.hpp"
#include "proxy/metrics.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::proxy {

using ask::Fault;
using ask::get;
using ask::has;
using ask::load;

inline constexpr std::string_view kDateLine = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

struct World {
    explicit World(const std::string& yaml = "upstream: http://127.0.0.1:3000\n")
        : limiter(memory, store_metrics) {
        reload(yaml);
    }

    // Without upstreams: nothing is forwarded here.
    void reload(const std::string& yaml) {
        const boost::intrusive_ptr<Generation> made(new Generation(ask::load(yaml)));
        made->slots = names.admit(ask::names_of(*made->config));
        metrics.grow(names.routes.size());
        ask_metrics.grow(names.decisions.size());
        generation = made;
    }
    std::string figures() const { return test::text_of(metrics, names); }

    asio::io_context io{1};
    Readiness readiness{io};
    GenerationPtr generation;
    telemetry::NameRegistry names;
    Metrics metrics{100};
    ask::Metrics ask_metrics{100};
    store::Metrics store_metrics;
    client::Metrics client_metrics;
    store::MemoryStore memory{store::MemoryStore::Options{}};
    store::Limiter limiter;
    Wakeup wakeup{io.get_executor()};  // in process nothing is waited for
    DeadlineWheel wheel{SteadyTime{}};
    BufferPool buffers;
    bool is_draining = false;
};

struct Request {
    Request(World& the_world, std::string head, bool trusted = false,
            const std::string& peer = "203.0.113.7")
        : world(the_world),
          bytes(std::move(head)),
          link{.input = {ConnectionPtr(new Connection(world.readiness, -1)), world.buffers},
               .sleeper = {world.io.get_executor(), world.wheel},
               .arrival = {.peer = {*parse_ip(peer), trusted}, .local_port = 8080},
               .is_draining = world.is_draining},
          exchange(world.io.get_executor(), world.wheel, world.buffers) {
        exchange.generation = world.generation;
        exchange.client = &stream;
        client.begin(link);
        ask::read_facts(bytes, link.arrival.peer, exchange.facts, client.framing(),
                        exchange.decision);
        exchange.facts.local_port = link.arrival.local_port;
        client.head().minor_version = exchange.facts.head.minor_version;
        client.set_head_state(client::Http1Stream::Head::complete);
        client.begin_body();
    }

    Fault decide() {
        return ask::take_steps(*exchange.generation, exchange.facts, exchange.decision);
    }
    // Charges the store in process.
    void charge() {
        REQUIRE(decide() == Fault::none);
        world.limiter.decide(exchange.decision.charge, world.wakeup);
        ask::apply_verdict(*exchange.generation, world.ask_metrics, exchange.decision);
    }

    // As the upstream gets it.
    std::string forwarded() {
        REQUIRE(decide() == Fault::none);
        return write_request_head(exchange, "127.0.0.1:3000");
    }

    // As the client gets the proxy's own answer.
    std::string refused() {
        const FaultAnswer answer = make_fault_answer(exchange);
        std::string text = write_fault_head(exchange, answer, kDateLine);
        return text += answer.content();
    }

    World& world;
    std::string bytes;
    client::Http1Link link;
    client::Http1Stream client;
    client::Stream stream{client};
    Exchange exchange;
};

}  // namespace tidegate::proxy

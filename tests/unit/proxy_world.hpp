// What a request finds at its worker, made by hand: no socket is open, no time passes.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "proxy/exchange.hpp"
#include "proxy/heads.hpp"
#include "proxy/http1_client.hpp"
#include "proxy/street.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

inline std::shared_ptr<const config::Config> load(const std::string& yaml) {
    auto loaded = config::load_text(yaml, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return loaded.config;
}

inline telemetry::MetricNames names_of(const config::Config& config) {
    telemetry::MetricNames names;
    for (const auto& route : config.routes) names.routes.push_back(route.name);
    for (const auto& upstream : config.upstreams) names.upstreams.push_back(upstream.name);
    for (const auto& list : config.limit_lists) {
        auto& entry = names.policies.emplace_back();
        entry.policy = list.policy->name;
        entry.shadow = list.policy->shadow;
        for (const auto& limit : list.limits()) entry.limits.push_back(limit.name);
    }
    return names;
}

struct World {
    explicit World(const std::string& yaml = "upstream: http://127.0.0.1:3000\n")
        : config(load(yaml)),
          metrics(names_of(*config), {}, 1, "test"),
          memory(store::MemoryStore::Options{}),
          limiter(memory, metrics.shard(0)),
          worker{.executor = io.get_executor(),
                 .generation = generation(),
                 .thread = 0,
                 .metrics = metrics.shard(0),
                 .limiter = limiter,
                 .passwords = passwords,
                 .deadlines = wheel,
                 .buffers = buffers,
                 .request_ids = {},
                 .exchanges = {io.get_executor(), wheel, buffers}} {}

    // Without upstreams: nothing is forwarded here.
    GenerationPtr generation() {
        boost::intrusive_ptr<Generation> made(new Generation(config));
        made->slots = *metrics.admit(names_of(*config));
        return made;
    }

    asio::io_context io{1};
    Readiness readiness{io};
    std::shared_ptr<const config::Config> config;
    telemetry::Metrics metrics;
    store::MemoryStore memory;
    store::Limiter limiter;
    PasswordPool passwords{{}};
    DeadlineWheel wheel{SteadyTime{}};
    BufferPool buffers;
    WorkerContext worker;
};

// One request of one client, as far down the street as a test takes it.
struct Request {
    Request(World& the_world, std::string head, bool trusted = false,
            const std::string& peer = "203.0.113.7")
        : world(the_world),
          bytes(std::move(head)),
          client(ConnectionPtr(new Connection(world.readiness, -1)), world.buffers,
                 {*parse_ip(peer), trusted}, 8080),
          exchange(world.io.get_executor(), world.wheel, world.buffers) {
        exchange.generation = world.worker.generation;
        exchange.request_id = "made-here";
        REQUIRE(http::parse_request_head(bytes, {}, exchange.request) == http::HeadFault::none);
        check_framing(exchange);
    }

    // Up to the question to the limiter.
    Fault walk() {
        if (exchange.fault == Fault::none) match_route(exchange);
        if (exchange.fault == Fault::none) identify(client, exchange);
        // What has to be proved is proved by a session.
        if (exchange.fault == Fault::none && is_unproved(exchange)) conclude_identity(exchange);
        if (exchange.fault == Fault::none) list_charges(world.worker, exchange);
        return exchange.fault;
    }

    std::string identifiers() const {
        std::string all;
        for (const auto& item : exchange.decision.items) {
            all += item.policy->name + "=" + std::string(item.identifier) + " ";
        }
        return all;
    }

    // As the upstream gets it.
    std::string forwarded() {
        REQUIRE(walk() == Fault::none);
        std::string out;
        append_request_head(client, exchange, "127.0.0.1:3000", out);
        return out;
    }

    World& world;
    std::string bytes;
    Http1Client client;
    Exchange exchange;
};

inline std::string get(const std::string& fields = "") {
    return "GET / HTTP/1.1\r\nHost: api.example\r\n" + fields + "\r\n";
}

inline bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace tidegate::proxy

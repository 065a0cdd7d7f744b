// A configuration and requests to decide about, made by hand: no socket, no event loop, no time.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "ask/charge_list.hpp"
#include "ask/identify.hpp"
#include "ask/metrics.hpp"
#include "ask/request_checks.hpp"
#include "ask/verdict.hpp"
#include "config/config.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::ask {

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
    explicit World(const std::string& yaml) : rules(load(yaml)) {
        rules.slots = names.admit(names_of(*rules.config));
        metrics.grow(names.decisions.size());
    }
    std::string figures() const { return test::text_of(metrics, names); }

    Ruleset rules;
    telemetry::NameRegistry names;
    Metrics metrics{100};
};

// Reads `bytes` into facts and checks the framing.
inline void read_facts(const std::string& bytes, identity::Peer peer, Facts& facts,
                       http::Framing& framing, Decision& decision) {
    facts.request_id = "made-here";
    facts.peer = peer;
    REQUIRE(http::parse_request_head(bytes, {}, facts.head) == http::HeadFault::none);
    check_framing(facts, framing, decision);
}

// The steps that need no store. Credentials stay unchecked.
inline Fault take_steps(const Ruleset& rules, const Facts& facts, Decision& decision) {
    if (decision.goes_on()) match_route(*rules.config, facts, decision);
    if (decision.goes_on()) identify(rules, facts, decision);
    if (decision.goes_on() && needs_proof(decision)) conclude_identity(*rules.config, decision);
    if (decision.goes_on()) list_charges(*rules.config, facts, decision);
    return decision.fault;
}

inline std::string identifiers_of(const Decision& decision) {
    std::string all;
    for (const auto& item : decision.charge.items) {
        all.append(item.policy->name).append("=").append(item.identifier) += ' ';
    }
    return all;
}

// One request of one client.
struct Request {
    Request(World& the_world, std::string head, bool trusted = false,
            const std::string& peer = "203.0.113.7")
        : world(the_world), bytes(std::move(head)) {
        read_facts(bytes, {*parse_ip(peer), trusted}, facts, framing, decision);
    }

    Fault decide() { return take_steps(world.rules, facts, decision); }
    void apply_verdict() { ask::apply_verdict(world.rules, world.metrics, decision); }
    std::string identifiers() const { return identifiers_of(decision); }

    World& world;
    std::string bytes;
    http::Framing framing;
    Facts facts;
    Decision decision;
};

inline std::string get(const std::string& fields = "") {
    return "GET / HTTP/1.1\r\nHost: api.example\r\n" + fields + "\r\n";
}

inline bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace tidegate::ask

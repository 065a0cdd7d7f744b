#include "doctor/upstreams.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "doctor/endpoints.hpp"
#include "doctor/parallel.hpp"

namespace tidegate::doctor {

namespace {

// A server, and whether it is the only one that its upstream has.
struct Server {
    const config::Upstream* upstream;
    const config::UpstreamServer* server;
};

std::vector<Server> servers_of(const config::Config& config) {
    std::vector<Server> servers;
    for (const config::Upstream& upstream : config.upstreams) {
        for (const config::UpstreamServer& server : upstream.servers) {
            servers.push_back({&upstream, &server});
        }
    }
    return servers;
}

struct Reached {
    std::size_t addresses = 0;
    std::vector<std::string> faults;  // a clause each
    bool at_all() const { return faults.size() < addresses; }
};

Reached reach(const config::Address& address, const TimeLimit& time_limit) {
    Reached reached;
    const auto endpoints = find_endpoints(address, time_limit.for_step());
    if (!endpoints) return {1, {endpoints.error()}};
    reached.addresses = endpoints->size();
    for (const auto& endpoint : *endpoints) {
        const std::string fault = try_connect(endpoint, time_limit.for_step());
        if (fault.empty()) continue;
        reached.faults.push_back(
            fmt::format("cannot connect to {}: {}", endpoint_text(endpoint), fault));
    }
    return reached;
}

// The findings about one server. `others_help`: another server of its upstream was reached.
Findings report(const Server& of, const Reached& reached, bool others_help) {
    const std::string address = of.server->address.to_string();
    Findings findings("upstream " + of.upstream->name);
    if (reached.faults.empty()) {
        findings.ok("upstream.reachable", address + " accepts connections");
        return findings;
    }
    const bool is_fault = !reached.at_all() && !others_help;
    for (const std::string& fault : reached.faults) {
        findings.add(
            is_fault ? Severity::fault : Severity::warning, "upstream.reachable",
            fault.starts_with(address) ? fault : fmt::format("{}: {}", address, fault),
            is_fault ? fmt::format("start it, or correct upstreams.{}.servers", of.upstream->name)
                     : "start it: until then, requests try it first and lose time");
    }
    return findings;
}

}  // namespace

Findings examine_upstreams(const config::Config& config, const TimeLimit& time_limit) {
    const std::vector<Server> servers = servers_of(config);
    std::vector<Reached> reached(servers.size());
    in_parallel(servers.size(), [&](std::size_t index) {
        reached[index] = reach(servers[index].server->address, time_limit);
        return Findings();
    });
    Findings all;
    for (std::size_t i = 0; i < servers.size(); ++i) {
        bool others_help = false;
        for (std::size_t other = 0; other < servers.size(); ++other) {
            others_help = others_help || (servers[other].upstream == servers[i].upstream &&
                                          other != i && reached[other].at_all());
        }
        all.append(report(servers[i], reached[i], others_help));
    }
    return all;
}

}  // namespace tidegate::doctor

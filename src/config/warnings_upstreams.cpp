// Settings of `upstreams` that are valid but probably a mistake: settings without effect, servers
// without requests.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/read_sections.hpp"
#include "http/grpc.hpp"
#include "limit/limit.hpp"

namespace tidegate::config {

namespace {

// An address is one server; a name may become several.
bool is_one_address(const UpstreamServer& server) {
    return server.address.is_unix() || parse_ip(server.address.host).has_value();
}

void warn_about_lone_server(Section& section, const Upstream& upstream) {
    if (upstream.servers.size() != 1 || !is_one_address(upstream.servers.front())) return;
    const auto warn = [&](std::string_view key, bool is_set) {
        if (!is_set) return;
        section.find(key)->warn("has no effect: the upstream has one server, at a fixed address");
    };
    warn("balance", upstream.balance != Balance::round_robin);
    warn("eject", upstream.eject.has_value());
    warn("slow_start", upstream.slow_start != milliseconds{0});
}

// Tidegate tries each server once, and servers that are addresses do not become more.
void warn_about_retries(Section& section, const Upstream& upstream) {
    const auto retries = section.find("retries");
    const auto& servers = upstream.servers;
    const auto others = static_cast<int>(servers.size()) - 1;
    // 1 is the default, so writing it down is no mistake.
    if (!retries || upstream.retries <= std::max(1, others)) return;
    if (!std::all_of(servers.begin(), servers.end(), is_one_address)) return;
    retries->warn(others == 0
                      ? "has no effect: the upstream has no other server to try"
                      : "has no effect above " + std::to_string(others) + ": the upstream has " +
                            std::to_string(servers.size()) + " servers");
}

// All ways of choosing give a server about its share of the weights: of the requests, of those in
// flight or of the keys. A server counts as forgotten below a thousandth of all, if that is also
// less than a hundredth of what it would get without weights: one of a thousand equal servers is
// none, nor is a canary with 1 of 1000.
bool is_forgotten(const UpstreamServer& server, std::int64_t all, std::int64_t servers) {
    constexpr std::int64_t kOfAll = 1'000;
    constexpr std::int64_t kOfEqual = 100;
    return server.weight * kOfAll < all && server.weight * servers * kOfEqual < all;
}

void warn_about_weights(Section& section, const Upstream& upstream) {
    const auto& servers = upstream.servers;
    const std::vector<Value> items = section.find("servers")->one_or_more({"a list of servers"});
    if (items.size() != servers.size()) return;
    if (servers.size() == 1) {
        warn_about_lone_weight(items[0]);
        return;
    }
    std::int64_t all = 0;
    for (const UpstreamServer& server : servers) all += server.weight;
    for (std::size_t i = 0; i < servers.size(); ++i) {
        if (!is_forgotten(servers[i], all, std::ssize(servers))) continue;
        items[i].warn("gets about 1 of " + std::to_string(all / servers[i].weight) +
                      " requests, as its weight is " + std::to_string(servers[i].weight) + " of " +
                      std::to_string(all) + ": raise it, lower the others, or remove the server");
    }
}

// While a request waits for `wait`, each connection serves wait / t requests that take t. So the
// last one in a full queue is served in time if t is at most wait * max_connections / max. How long
// requests take is not known; where t would have to be below 5 ms, the queue is taken to be too
// long, as few applications answer that fast when they are at their limit.
void warn_about_queue(Section& section, const Upstream& upstream) {
    using std::chrono::microseconds;
    constexpr microseconds kFast{5'000};
    const auto written = section.find("queue");
    const Queue& queue = upstream.queue;
    if (!written || queue.max == 0) return;
    const microseconds wait = queue.wait;
    // At most 600 s times a million connections.
    const auto seats = static_cast<std::int64_t>(upstream.max_connections);
    const microseconds time = wait * seats / static_cast<std::int64_t>(queue.max);
    if (time >= kFast) return;
    const std::int64_t served = std::max<std::int64_t>(1, wait * seats / kFast);
    written->warn(
        "holds more requests than can be served in time: the last of " + std::to_string(queue.max) +
        " gets one of " + std::to_string(seats) + " connections within " + format_duration(wait) +
        " only if each request takes at most " + format_duration(time) + ". Lower `max`, to " +
        std::to_string(served) + " for requests of 5ms, or raise `wait` or `max_connections`");
}

// A server that distinguishes hosts gets the client's host in requests, and its own address in
// checks. A route of the upstream that is for one host shows that the server may do so.
void warn_about_check_hosts(const Config& config, const Declared& declared, Context& context) {
    if (!config.forwarding.preserve_host) return;
    for (const auto& [position, place] : declared.checks_without_host) {
        const Upstream& upstream = config.upstreams[position];
        const auto is_bare = [](const UpstreamServer& server) {
            return !server.address.is_unix() && is_one_address(server);
        };
        const auto bare = std::find_if(upstream.servers.begin(), upstream.servers.end(), is_bare);
        if (bare == upstream.servers.end()) continue;
        for (std::size_t i = 0; i < config.routes.size(); ++i) {
            if (config.routes[i].upstream != position || !config.router.names_host(i)) continue;
            context.warnings.push_back(
                {place, "upstreams." + upstream.name + ".health_check: sends " +
                            quote("Host: " + bare->authority) + ", and requests of the route " +
                            quote(config.routes[i].name) +
                            " keep the host of the client. If the server tells hosts apart, write "
                            "`host: api.example.com` in `health_check`"});
            break;
        }
    }
}

void warn_about_hashes(const Config& config, const Declared& declared, Context& context) {
    for (const Upstream& upstream : config.upstreams) {
        if (upstream.balance != Balance::hash) continue;
        const std::string_view missing = what_is_missing_for(upstream.hash_key, config);
        const auto entry = declared.upstreams.find(upstream.name);
        if (missing.empty() || entry == declared.upstreams.end()) continue;
        context.warnings.push_back(
            {entry->second.place,
             "upstreams." + upstream.name +
                 ".balance: no request has this key, so servers take turns: identity.user lists " +
                 std::string(missing) + ". Add one, or an alternative such as `user|ip`"});
    }
}

// The first status of gRPC that a limit of the policy counts by, as it is written; empty: none.
std::string grpc_count_of(const Policy& policy) {
    const auto find = [](const std::vector<limit::Limit>& limits) -> std::string {
        for (const limit::Limit& one : limits) {
            // In order, and those of gRPC are above those of HTTP.
            if (one.statuses.empty() || one.statuses.back() < limit::kGrpcStatuses) continue;
            return "grpc:" + std::to_string(one.statuses.back() - limit::kGrpcStatuses);
        }
        return {};
    };
    std::string found = find(policy.limits);
    for (const limit::Tier& tier : policy.tiers) {
        if (found.empty()) found = find(tier.limits);
    }
    return found;
}

// How a message says that calls of gRPC take the route; empty: nothing says so.
std::string about_calls(const Route& route, bool is_for_grpc) {
    if (is_for_grpc) return "takes calls of gRPC";
    for (const Policy* const policy : route.policies) {
        const std::string count = grpc_count_of(*policy);
        if (!count.empty()) return "counts answers of gRPC (" + quote(count) + ")";
    }
    return {};
}

// Tidegate answers such a call itself: HTTP/1 cannot carry it.
void warn_about_grpc(const Config& config, const Declared& declared, Context& context) {
    if (config.upstreams.empty()) return;
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const Route& route = config.routes[i];
        const Upstream& upstream = config.upstreams[route.upstream];
        // Where some speak HTTP/2, calls go to these.
        if (upstream.has_http2() || upstream.servers.empty()) continue;
        const std::string calls = about_calls(route, declared.grpc_routes.contains(i));
        if (calls.empty()) continue;
        context.warnings.push_back(
            {declared.routes[i],
             "the route " + quote(route.name) + " " + calls + ", and its server " +
                 quote(upstream.servers.front().address.to_string()) +
                 " speaks HTTP/1, so calls are answered 12 UNIMPLEMENTED: write `h2c://` in "
                 "`servers`, or, over TLS, `http: h2` beside `https://`"});
    }
}

}  // namespace

bool takes_grpc_only(const routing::Match& match) {
    return std::any_of(match.headers.begin(), match.headers.end(), [](const auto& field) {
        return field.first == "content-type" && http::is_grpc_content_type(field.second);
    });
}

void warn_about_balancing(Section& section, const Upstream& upstream) {
    if (upstream.servers.empty()) return;
    warn_about_lone_server(section, upstream);
    warn_about_weights(section, upstream);
    warn_about_retries(section, upstream);
    warn_about_queue(section, upstream);
}

void warn_about_lone_weight(const Value& server) {
    if (!server.is_map()) return;
    const auto weight = Section(server).find("weight");
    if (weight) weight->warn("has no effect: the upstream lists one server");
}

void warn_about_upstreams(const Config& config, const Declared& declared, Context& context) {
    warn_about_check_hosts(config, declared, context);
    warn_about_hashes(config, declared, context);
    warn_about_grpc(config, declared, context);
}

}  // namespace tidegate::config

// Settings of routes and of upstreams that are valid but probably a mistake.
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

using routing::RouteCase;

void warn_about_shadowed(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto earlier = config.router.shadowed_by(i);
        if (!earlier) continue;
        context.warnings.push_back(
            {declared.routes[i], "the route " + quote(config.routes[i].name) +
                                     " is never reached: " + quote(config.routes[*earlier].name) +
                                     " takes everything it could match"});
    }
}

// The setting that makes `other` looser than `route`; empty: none that is known.
std::string what_is_lacking(const Route& route, const Route& other) {
    for (const PolicySettings* policy : route.policies) {
        const auto& policies = other.policies;
        if (policy->shadow || policy->soft ||
            std::find(policies.begin(), policies.end(), policy) != policies.end()) {
            continue;
        }
        return "the policy " + quote(policy->name);
    }
    if (route.header_cost && !other.header_cost) return "its cost by header";
    if (other.cost < route.cost) return "its cost of " + std::to_string(route.cost);
    return {};
}

bool is_looser(const Route& to, const Route& from) {
    return !what_is_lacking(from, to).empty();
}

// Nothing where each takes the paths in its own case and neither limits less.
std::string about_overlap(const Config& config, const Route& first, const Route& second) {
    const std::string one = quote(first.name);
    const std::string other = quote(second.name);
    const std::string message =
        "the routes " + one + " and " + other + " match the same path in different case";
    if (config.route_case == RouteCase::refuse) {
        return message +
               ". With `routes_ignore_case: auto`, Tidegate refuses (400) that path in the "
               "spelling of " +
               other + ". Write `on` to send both to " + one + ", or `off` to keep two routes";
    }
    if (!is_looser(first, second) && !is_looser(second, first)) return {};
    return message +
           ", and their limits differ: if the upstream ignores case, a client chooses between "
           "them. Write `routes_ignore_case: auto` (refuses the spelling of " +
           other + ") or `on` (sends both to " + one + ")";
}

void warn_about_overlaps(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto earlier = config.router.differs_by_case(i);
        if (!earlier) continue;
        std::string message = about_overlap(config, config.routes[*earlier], config.routes[i]);
        if (message.empty()) continue;
        context.warnings.push_back({declared.routes[i], std::move(message)});
    }
}

// One warning for all: a configuration may have thousands of routes before the one that takes the
// rest.
void warn_about_escapes(const Config& config, const Declared& declared, Context& context) {
    std::string first;
    std::size_t more = 0;
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto other = config.router.escape_by_case(i);
        if (!other || !is_looser(config.routes[*other], config.routes[i])) continue;
        if (!first.empty()) {
            ++more;
            continue;
        }
        first = "with `off`, a path of the route " + quote(config.routes[i].name) +
                " in another case takes the route " + quote(config.routes[*other].name) +
                ", which limits it less";
    }
    if (first.empty()) return;
    if (more != 0) {
        first += "; so do paths of " +
                 (more == 1 ? "another route" : std::to_string(more) + " other routes");
    }
    context.warnings.push_back(
        {declared.route_case, "routes_ignore_case: " + first +
                                  ". Write `auto` unless the upstream tells `/A` from `/a`"});
}

std::string about_left_headers(const Route& route, const Route& next, const std::string& lacking) {
    const std::string other = quote(next.name);
    return "the route " + quote(route.name) +
           " needs `headers`, and a client that does not send them takes the route " + other +
           ", which lacks " + lacking + ": give " + other +
           " the same, or match by path, host or method";
}

// Clients choose which fields they send.
void warn_about_left_headers(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto next = config.router.without_headers(i);
        if (!next) continue;
        const Route& route = config.routes[i];
        const std::string lacking = what_is_lacking(route, config.routes[*next]);
        if (lacking.empty()) continue;
        context.warnings.push_back(
            {declared.routes[i], about_left_headers(route, config.routes[*next], lacking)});
    }
}

constexpr std::string_view kMethodAdvice =
    ". An application that obeys `_method` in the query or form of a POST (Rails, Laravel, "
    "Symfony, Spring) serves such a request as another method than Tidegate counts. Turn that off "
    "in the application, then write `method_override: remove`, which ends this warning";

std::string methods_of(const routing::Router& router, std::size_t route) {
    std::string names;
    for (const std::string& method : router.methods(route)) {
        if (!names.empty()) names += ", ";
        names += method;
    }
    return names;
}

// What a client gains by a method that only the application knows of; empty: nothing that is known.
// Sets `place`.
std::string about_hidden_method(const Config& config, const Declared& declared, Place& place) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto other = config.router.instead_for_post(i);
        if (!other) continue;
        const std::string lacking = what_is_lacking(config.routes[i], config.routes[*other]);
        if (lacking.empty()) continue;
        place = declared.routes[i];
        return "the route " + quote(config.routes[i].name) + " takes " +
               methods_of(config.router, i) + ", and a POST to its path takes the route " +
               quote(config.routes[*other].name) + ", which lacks " + lacking;
    }
    for (const auto& policy : config.policies) {
        if (!limit::counts_by(policy->key, limit::KeyPart::Kind::method)) continue;
        place = place_of(*policy, config, declared);
        return "the policy " + quote(policy->name) + " counts by `method`";
    }
    return {};
}

// Tidegate removes the fields that name another method, and leaves query and body as they are. Of
// these, applications look at a POST only. One warning for all; `method_override` silences it.
void warn_about_hidden_methods(const Config& config, const Declared& declared, Context& context) {
    if (declared.states_overrides) return;
    Place place;
    std::string message = about_hidden_method(config, declared, place);
    if (message.empty()) return;
    context.warnings.push_back({place, message.append(kMethodAdvice)});
}

// One warning for all such routes: `policies` is required, and readers easily take it for all
// policies of a route.
void warn_about_empty_policies(const Declared& declared, Context& context) {
    if (declared.default_policies.empty() || declared.empty_policies.empty()) return;
    std::string names;
    for (const std::string& name : declared.default_policies) {
        if (!names.empty()) names += ", ";
        names += name;
    }
    std::string message =
        "with `policies: []`, `default_policies: [" + names + "]` still applies to this route";
    if (const std::size_t more = declared.empty_policies.size() - 1; more != 0) {
        message += " and to " + (more == 1 ? "another" : std::to_string(more) + " others");
    }
    message += ". Write `default_policies: []` on the route for no limit, or `default_policies: [" +
               names + "]` to keep it";
    context.warnings.push_back({declared.empty_policies.front(), std::move(message)});
}

}  // namespace

void warn_about_routes(const Config& config, const Declared& declared, Context& context) {
    warn_about_shadowed(config, declared, context);
    warn_about_empty_policies(declared, context);
    warn_about_left_headers(config, declared, context);
    warn_about_hidden_methods(config, declared, context);
    if (config.route_case == RouteCase::ignore) return;
    warn_about_overlaps(config, declared, context);
    if (config.route_case == RouteCase::as_sent) warn_about_escapes(config, declared, context);
}

// Settings of `upstreams` that are valid but probably a mistake: settings without effect, servers
// without requests.

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
std::string grpc_count_of(const PolicySettings& policy) {
    const auto counts_grpc = [](const limit::Limit& limit) { return limit.counts_grpc(); };
    const auto* const found = limit::find_limit(policy, counts_grpc);
    // In order, and those of gRPC are above those of HTTP.
    return found != nullptr ? limit::status_text(found->statuses.back()) : std::string();
}

// How a message says that calls of gRPC take the route; empty: nothing says so.
std::string about_calls(const Route& route, bool is_for_grpc) {
    if (is_for_grpc) return "takes calls of gRPC";
    for (const PolicySettings* const policy : route.policies) {
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

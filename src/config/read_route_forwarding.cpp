// How a route forwards its requests: how long it waits, how much it takes and holds, which path the
// upstream gets, which tunnels it takes, and what a request costs.
#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "limit/limit.hpp"
#include "routing/path_pattern.hpp"

namespace tidegate::config {

namespace {

void read_strip_prefix(const Value& value, const routing::PathPattern* pattern, Route& route) {
    auto prefix = value.text("the beginning of a path such as `/api`");
    if (!prefix || pattern == nullptr) return;
    if (const auto checked = routing::check_path_prefix(*prefix, *pattern); !checked) {
        value.fault(checked.error());
    } else {
        route.strip_prefix = std::move(*prefix);
    }
}

void read_buffer(const Value& value, bool bound_is_own, Route& route) {
    const auto bytes = read_held_bytes(value);
    if (!bytes) return;
    route.buffer = *bytes;
    if (*bytes <= route.body_bytes) return;
    value.fault("is larger than the bodies that this route takes: " +
                std::string(bound_is_own ? "its " : "") + "limits_on_requests.body_bytes is " +
                std::to_string(route.body_bytes) + " bytes. Write at most that");
}

}  // namespace

const Keys<Route>& route_timeouts_keys() {
    static const auto keys = Keys<Route>("a map: `{response: 2min, stream_idle: 1h}`")
                                 .duration("response", &Route::response_timeout, {},
                                           {"in place of the upstream's", "the upstream's"})
                                 .duration("stream_idle", &Route::stream_idle, {},
                                           {"in place of the upstream's", "the upstream's"});
    return keys;
}

const Keys<Route>& route_bounds_keys() {
    static const auto keys =
        Keys<Route>("a map: `{body_bytes: 100MiB}`")
            .size_or_unlimited("body_bytes", &Route::body_bytes, 0,
                               {"in place of the global one", "the global one"});
    return keys;
}

std::optional<std::size_t> read_held_bytes(const Value& value) {
    // Memory that each request may take: a larger body is not worth that.
    constexpr std::uint64_t kHeldBytesMax = 16'777'216;
    if (value.is_off()) return 0;
    const auto text = value.text("a size such as `64KiB`, or `off`");
    if (!text) return std::nullopt;
    const auto bytes = parse_size(*text);
    if (bytes && *bytes >= 1 && *bytes <= kHeldBytesMax) return static_cast<std::size_t>(*bytes);
    value.fault(quote(*text) +
                " is not a size from `1` to `16MiB`, nor `off`: each request may take that much "
                "memory, and Tidegate streams larger bodies");
    return std::nullopt;
}

void set_route_defaults(const Config& config, Route& route) {
    // A route whose upstream is broken is never served.
    if (route.upstream < config.upstreams.size()) {
        const Upstream& upstream = config.upstreams[route.upstream];
        route.response_timeout = upstream.response_timeout;
        route.stream_idle = upstream.stream_idle;
    }
    route.body_bytes = config.limits_on_requests.body_bytes;
    route.needs_user = config.require_user;
}

void read_route_forwarding(Section& section, const routing::PathPattern* pattern,
                           const Config& config, Route& route) {
    if (const auto timeouts = section.find("timeouts"))
        route_timeouts_keys().read(*timeouts, route);
    if (const auto bounds = section.find("limits_on_requests"))
        route_bounds_keys().read(*bounds, route);
    if (const auto prefix = section.find("strip_prefix")) {
        read_strip_prefix(*prefix, pattern, route);
    }
    if (const auto buffer = section.find("buffer")) {
        const bool bound_is_own = route.body_bytes != config.limits_on_requests.body_bytes;
        read_buffer(*buffer, bound_is_own, route);
    }
}

IdleRule forwards_nothing() {
    return {[](const Config& config, const Declared&) { return config.has_face(Face::proxy); },
            "no listener has `face: proxy`, so Tidegate forwards nothing", true};
}

// Tunnels of a route: `upgrade`, and the bounds on their messages in `tunnel`.

namespace {

void read_upgrade(const Value& value, Route& route) {
    constexpr ListRule kUpgrades{"a list of what a client may change to: `[websocket]`", "upgrades",
                                 4, "the list is empty: write `[websocket]`, or remove `upgrade`"};
    for (const Value& item : value.one_or_more(kUpgrades)) {
        if (const auto chosen = item.choice<bool>({{"websocket", true}})) {
            route.takes_websockets = *chosen;
        }
    }
}

// Tidegate opens tunnels to servers with a handshake of HTTP/1.1 only.
void refuse_over_http2(const Value& upgrade, const Config& config, const Route& route) {
    if (route.upstream >= config.upstreams.size()) return;
    const Upstream& upstream = config.upstreams[route.upstream];
    if (!upstream.has_http2()) return;
    upgrade.fault("WebSockets cannot go to the upstream " + quote(upstream.name) +
                  ", which speaks HTTP/2: send this route to an upstream with `http://` or "
                  "`http: http1`, or remove `upgrade`");
}

// Of one tunnel, kept by the thread that has it: a bucket, as a window would take more room.
void read_messages(const Value& value, TunnelBounds& bounds) {
    if (value.is_off()) return;
    const auto rate = value.parsed("a rate such as `100/s`, or `off`", parse_rate);
    if (!rate) return;
    constexpr std::int64_t kSecond_us = 1'000'000;
    const double a_second =
        static_cast<double>(rate->quota) * kSecond_us / static_cast<double>(rate->per.count());
    const auto burst = static_cast<std::int64_t>(
        std::min(a_second, static_cast<double>(std::numeric_limits<std::int32_t>::max())));
    auto limit = limit::make_limit({.algorithm = limit::Algorithm::gcra,
                                    .quota = rate->quota,
                                    .duration = rate->per,
                                    .burst = std::max<std::int64_t>(1, burst)});
    if (!limit) {
        value.fault(limit.error().what);
        return;
    }
    bounds.messages = std::move(*limit);
}

}  // namespace

const Keys<TunnelBounds>& tunnel_keys() {
    static const auto keys =
        Keys<TunnelBounds>("a map: `{messages: 100/s, message_bytes: 1MiB}`")
            .own("messages", kind::off_or(kind::type("rate")), read_messages,
                 {"frames that a client may send through one WebSocket, such as `100/s`; those of "
                  "a second may come at once. Beyond, Tidegate closes it (1008)",
                  "`off`", "as a limit's rate"})
            .size_or_unlimited(
                "message_bytes", &TunnelBounds::message_bytes, 1,
                {"how large a client's message may be. Beyond, Tidegate closes the WebSocket "
                 "(1009)",
                 "`unlimited`", "from 1 B"});
    return keys;
}

void read_route_tunnel(Section& section, const Config& config, Route& route) {
    if (const auto upgrade = section.find("upgrade")) {
        read_upgrade(*upgrade, route);
        if (route.takes_websockets) refuse_over_http2(*upgrade, config, route);
    }
    const auto tunnel = section.find("tunnel");
    if (!tunnel) return;
    tunnel_keys().read(*tunnel, route.tunnel);
    if (!section.find("upgrade")) {
        tunnel->warn("has no effect: the route has no `upgrade: [websocket]`");
    }
}

bool has_tunnels(const Config& config) {
    return std::any_of(config.routes.begin(), config.routes.end(),
                       [](const Route& route) { return route.takes_websockets; });
}

// `cost` of a route: what a request takes of each limit.

namespace {

// A quota of 0 is meant to deny and has a warning; a slot is one, whatever the request costs.
bool can_never_pass(std::int64_t cost, const limit::Limit& limit) {
    return limit.quota != 0 && !limit.traits().has_leases && cost > limit.most_at_once();
}

bool check_list(const Value& value, std::int64_t cost, const limit::Policy& policy,
                const std::vector<limit::Limit>& limits) {
    for (const limit::Limit& limit : limits) {
        if (!can_never_pass(cost, limit)) continue;
        const bool burst = limit.most_at_once() != limit.quota;
        value.fault("a cost of " + std::to_string(cost) + " can never pass the " +
                    (burst ? "burst" : "quota") + " of " + std::to_string(limit.most_at_once()) +
                    " in policy " + quote(policy.name) + ": write a cost of at most " +
                    std::to_string(limit.most_at_once()) + ", or raise the " +
                    (burst ? "burst" : "quota"));
        return false;
    }
    return true;
}

void read_cost_field(const Value& value, HeaderCost& cost) {
    cost.field = read_field_name(value).value_or("");
}

void read_stating_peers(const Value& value, HeaderCost& cost) {
    const auto anyone = value.choice<bool>({{"trusted_proxies", false}, {"anyone", true}});
    cost.from_anyone = anyone.value_or(false);
    if (!cost.from_anyone) return;
    value.warn(
        "every client can choose what its requests cost: write `from: trusted_proxies`, or make "
        "sure that `min` is enough");
}

}  // namespace

const Keys<HeaderCost>& cost_keys() {
    static const auto keys =
        Keys<HeaderCost>("a number, or a map: `{header: x-cost, default: 1, max: 100}`")
            .own("header", kind::type("field_name"), read_cost_field,
                 {"the field that states the cost", "required"})
            .required("`header: x-cost`")
            .own("from", kind::word({"trusted_proxies", "anyone"}), read_stating_peers,
                 {"who may state a cost: `trusted_proxies` or `anyone`", "`trusted_proxies`"})
            .key("default", kind::integer({0, limit::kQuotaMax}),
                 {"the cost where no field states one", "`1`"})
            .integer("min", &HeaderCost::min, {1, limit::kQuotaMax},
                     {"the least that a field may state"})
            .integer("max", &HeaderCost::max, {1, limit::kQuotaMax},
                     {"the most that a field may state"});
    return keys;
}

namespace {

void read_header_cost(const Value& value, Route& route) {
    HeaderCost cost;
    Section section = cost_keys().read(value, cost);
    if (const auto unstated = section.find("default")) {
        route.cost = unstated->integer({0, limit::kQuotaMax}).value_or(route.cost);
    }
    if (cost.min > cost.max) {
        section.find("min")->fault("must be at most `max`, " + std::to_string(cost.max));
    }
    route.header_cost = std::move(cost);
}

}  // namespace

void read_cost(const Value& value, Route& route) {
    if (!value.is_scalar()) {
        read_header_cost(value, route);
    } else if (const auto cost = value.integer({0, limit::kQuotaMax})) {
        route.cost = *cost;
    }
}

void check_cost(const Value& value, const Route& route) {
    std::int64_t least = route.cost;
    if (route.header_cost) least = std::max(least, route.header_cost->min);
    for (const Policy* policy : route.policies) {
        if (!check_list(value, least, *policy, policy->limits)) return;
        for (const limit::Tier& tier : policy->tiers) {
            if (!check_list(value, least, *policy, tier.limits)) return;
        }
    }
}

}  // namespace tidegate::config

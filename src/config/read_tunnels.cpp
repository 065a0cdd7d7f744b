// Tunnels of a route: `upgrade`, and the bounds on their messages in `tunnel`.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "limit/limit.hpp"

namespace tidegate::config {

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

}  // namespace tidegate::config

// How a route forwards its requests: how long it waits, how much it takes, and what of the path the
// upstream is sent.
#include <chrono>
#include <limits>
#include <string>

#include "config/read_sections.hpp"
#include "routing/path_prefix.hpp"

namespace tidegate::config {

namespace {

void read_route_timeouts(const Value& value, Route& route) {
    Section section(value, "a map: `{response: 2min, stream_idle: 1h}`");
    section.duration("response", route.response_timeout);
    section.duration("stream_idle", route.stream_idle);
    section.refuse_others();
}

void read_route_bounds(const Value& value, Route& route) {
    Section section(value, "a map: `{body_bytes: 100MiB}`");
    if (const auto body = section.find("body_bytes")) {
        const auto bytes = body->size({0, std::numeric_limits<std::int64_t>::max()}, true);
        if (bytes) route.body_bytes = *bytes;
    }
    section.refuse_others();
}

void read_strip_prefix(const Value& value, const routing::PathPattern* pattern, Route& route) {
    auto prefix = value.text("the beginning of a path such as `/api`");
    if (!prefix || pattern == nullptr) return;
    if (const auto checked = routing::check_path_prefix(*prefix, *pattern); !checked) {
        value.fault(checked.error());
    } else {
        route.strip_prefix = std::move(*prefix);
    }
}

}  // namespace

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

void read_route_forwarding(Section& section, const routing::PathPattern* pattern, Route& route) {
    if (const auto timeouts = section.find("timeouts")) read_route_timeouts(*timeouts, route);
    if (const auto bounds = section.find("limits_on_requests")) read_route_bounds(*bounds, route);
    if (const auto prefix = section.find("strip_prefix")) {
        read_strip_prefix(*prefix, pattern, route);
    }
}

}  // namespace tidegate::config

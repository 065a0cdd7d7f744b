// How a route forwards its requests: how long it waits, how much it takes and holds, and which path
// the upstream gets.
#include <chrono>
#include <limits>
#include <string>

#include "base/quote.hpp"
#include "base/units.hpp"
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
    if (const auto timeouts = section.find("timeouts")) read_route_timeouts(*timeouts, route);
    if (const auto bounds = section.find("limits_on_requests")) read_route_bounds(*bounds, route);
    if (const auto prefix = section.find("strip_prefix")) {
        read_strip_prefix(*prefix, pattern, route);
    }
    if (const auto buffer = section.find("buffer")) {
        const bool bound_is_own = route.body_bytes != config.limits_on_requests.body_bytes;
        read_buffer(*buffer, bound_is_own, route);
    }
}

void note_forwarding(Section& section, std::initializer_list<std::string_view> keys,
                     Declared& declared) {
    for (const std::string_view key : keys) {
        const auto value = section.find(key);
        if (value) declared.forwarding.push_back({value->place(), value->name()});
    }
}

}  // namespace tidegate::config

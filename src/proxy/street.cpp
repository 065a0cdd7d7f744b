#include "proxy/street.hpp"

#include <algorithm>

#include "http/head.hpp"
#include "identity/identifier.hpp"
#include "identity/user.hpp"

namespace tidegate::proxy {

namespace {

using http::FieldName;
using http::FramingFault;

constexpr std::size_t kRequestIdBytesMax = 128;

bool is_usable_request_id(std::string_view text) {
    return text.size() <= kRequestIdBytesMax && http::is_token(text);
}

std::string_view field_value(const http::Fields& fields, FieldName id) {
    for (const http::Field& field : fields) {
        if (field.id == id) return field.value;
    }
    return {};
}

std::int64_t seconds_up(limit::Micros time) {
    constexpr std::int64_t kSecond = 1'000'000;
    return time.count() / kSecond + (time.count() % kSecond != 0 ? 1 : 0);
}

// Identifiers are views into exchange.identifiers, which must not grow any more once the first is
// taken: so all are written first, and then counted.
struct IdentifierSpan {
    std::size_t begin = 0;
    std::size_t size = 0;
};

// `ip:` identifiers, one a prefix; prefixes that say the same of this address make one.
std::size_t write_ip_identifiers(const Exchange& exchange, const std::vector<int>& prefixes,
                                 std::string& out, std::span<IdentifierSpan> spans) {
    std::size_t count = 0;
    if (!exchange.client) return 0;
    for (const int prefix : prefixes) {
        if (count == spans.size() || (exchange.client->v4 && count == 1)) break;
        const std::size_t begin = out.size();
        identity::append_ip_identifier(*exchange.client, prefix, out);
        spans[count++] = {begin, out.size() - begin};
    }
    return count;
}

}  // namespace

void check_framing(WorkerContext& worker, Exchange& exchange) {
    http::RequestHead& request = exchange.request;
    const FramingFault fault = http::request_framing(request, exchange.framing);
    if (fault != FramingFault::none) {
        exchange.fault = Fault::bad_framing;
        exchange.fault_detail = http::describe(fault);
        return;
    }
    exchange.body.start(exchange.framing);
    if (request.method == "CONNECT") {
        exchange.fault = Fault::unsupported_method;
        return;
    }
    exchange.keep_alive = exchange.framing.keep_alive;
    exchange.host = request.authority.empty() ? field_value(request.fields, FieldName::host)
                                              : request.authority;
    const auto& bounds = worker.config->limits_on_requests;
    if (exchange.framing.body == http::BodyKind::length &&
        exchange.framing.length > bounds.body_bytes) {
        exchange.fault = Fault::body_too_large;
    }
}

void match_route(WorkerContext& worker, Exchange& exchange) {
    const http::RequestHead& request = exchange.request;
    const auto matched =
        worker.config->router.match({request.method, request.path, exchange.host, &request.fields});
    switch (matched.outcome) {
        case routing::MatchOutcome::matched:
            exchange.route_index = matched.route;
            exchange.route = &worker.config->routes[matched.route];
            break;
        case routing::MatchOutcome::no_route:
            exchange.fault = Fault::no_route;
            break;
        case routing::MatchOutcome::bad_path:
            exchange.fault = Fault::bad_path;
            break;
        case routing::MatchOutcome::ambiguous_path:
            exchange.fault = Fault::ambiguous_path;
            break;
    }
}

void identify(WorkerContext& worker, const Http1Client& client, Exchange& exchange) {
    const config::Config& config = *worker.config;
    const http::Fields& fields = exchange.request.fields;
    exchange.client = identity::client_address(client.peer(), fields, config.client_ip);
    exchange.user = identity::user_of(client.peer(), fields, config.user);
    if (client.peer().trusted) {
        const std::string_view id = http::single_value(fields, "x-request-id");
        if (is_usable_request_id(id)) exchange.request_id = id;
    }
}

void list_charges(WorkerContext& worker, Exchange& exchange) {
    auto& items = exchange.decision.items;
    items.clear();
    exchange.decision.cost = exchange.route->cost;
    if (exchange.route->policies.empty()) return;
    std::string& text = exchange.identifiers;
    text.clear();
    std::array<IdentifierSpan, 8> ips;
    const std::size_t ip_count =
        write_ip_identifiers(exchange, worker.config->client_ip.ipv6_prefixes, text, ips);
    IdentifierSpan user{text.size()};
    if (exchange.user) identity::append_user_identifier(*exchange.user, text);
    user.size = text.size() - user.begin;

    for (const limit::Policy* policy : exchange.route->policies) {
        const std::size_t before = items.size();
        const auto add = [&](IdentifierSpan span) {
            items.push_back({policy, std::string_view(text).substr(span.begin, span.size)});
        };
        for (const limit::Key key : policy->key) {
            if (key == limit::Key::ip) {
                std::for_each_n(ips.begin(), ip_count, add);
            } else if (user.size > 0) {
                add(user);
            }
        }
        // Leaving out every key must not be a way around the policy.
        if (items.size() == before) {
            exchange.fault = Fault::nobody;
            items.clear();
            return;
        }
    }
}

std::int64_t retry_after_seconds(const limit::Verdict& verdict) {
    if (verdict.retry_after == limit::kNever) return 0;
    std::int64_t seconds = std::max<std::int64_t>(1, seconds_up(verdict.retry_after));
    for (const limit::LimitVerdict& one : verdict.limits) {
        if (one.denied && one.next_unit != limit::kNever) {
            seconds = std::max(seconds, seconds_up(one.next_unit));
        }
    }
    return seconds;
}

void judge(WorkerContext& worker, Exchange& exchange) {
    const store::Decision& decision = exchange.decision;
    if (decision.result == store::Decision::Result::unavailable) {
        exchange.fault = Fault::store_unavailable;
        return;
    }
    if (decision.result == store::Decision::Result::limited) exchange.fault = Fault::limited;
    // One entry a limit, of the identifier with the least left: items of one policy stand
    // together, so its entries are those that were begun last.
    const limit::Policy* policy = nullptr;
    std::size_t first = 0;
    std::size_t position = 0;
    for (const limit::ChargeItem& item : decision.decided()) {
        const bool begins = item.policy != policy;
        policy = item.policy;
        if (begins) first = exchange.ratelimit.size();
        for (std::size_t i = 0; i < policy->limits.size(); ++i, ++position) {
            const limit::LimitVerdict& one = decision.verdict.limits[position];
            worker.metrics.count_decision(policy->index, i, one.denied);
            const std::int64_t reset =
                one.next_unit == limit::kNever ? 0 : seconds_up(one.next_unit);
            if (begins) {
                const auto& texts = worker.policy_texts.of(*policy, i);
                exchange.ratelimit.push_back({texts.label, policy->limits[i].quota,
                                              texts.window_seconds, one.remaining, reset});
            } else if (auto& entry = exchange.ratelimit[first + i];
                       one.remaining < entry.remaining ||
                       (one.remaining == entry.remaining && reset > entry.reset_seconds)) {
                entry.remaining = one.remaining;
                entry.reset_seconds = reset;
            }
        }
    }
}

}  // namespace tidegate::proxy

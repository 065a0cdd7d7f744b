// What a request is charged: for whom, which limits, how much, and for which moment.
#include <algorithm>

#include "base/timestamp.hpp"
#include "base/units.hpp"
#include "http/stated.hpp"
#include "proxy/identifiers.hpp"
#include "proxy/street.hpp"

namespace tidegate::proxy {

namespace {

using http::Stated;
using limit::Micros;
using Made = IdentifierMaker::Made;
using telemetry::CostFault;

bool is_denied(const Exchange& exchange) {
    const auto& policies = exchange.route->policies;
    return std::any_of(policies.begin(), policies.end(), [&](const config::Policy* policy) {
        return !policy->shadow && !policy->deny.empty() &&
               policy->deny.includes(exchange.client, exchange.user);
    });
}

// Null: the policy's own limits hold.
const limit::Tier* tier_of(const limit::Policy& policy, std::string_view name) {
    if (name.empty()) return nullptr;
    for (const limit::Tier& tier : policy.tiers) {
        if (tier.name == name) return &tier;
    }
    return nullptr;
}

std::string_view text_of(const Exchange& exchange, IdentifierSpan span) {
    return std::string_view(exchange.identifiers).substr(span.begin, span.size);
}

// Appends an item for each identifier that was made and that the policy, whose first item is at
// `first`, does not count yet.
void add_items(const limit::Policy& policy, const limit::Tier* tier, std::size_t first,
               std::span<const IdentifierSpan> made, Exchange& exchange) {
    for (const IdentifierSpan span : made) {
        const bool known =
            std::any_of(exchange.spans.begin() + static_cast<std::ptrdiff_t>(first),
                        exchange.spans.end(), [&](IdentifierSpan other) {
                            return text_of(exchange, other) == text_of(exchange, span);
                        });
        if (known) continue;
        exchange.decision.items.push_back({&policy, {}, tier});
        exchange.spans.push_back(span);
    }
}

// What `policy` counts, or why the request goes no further.
Fault list_policy(const config::Policy& policy, IdentifierMaker& maker, Exchange& exchange) {
    if (!policy.exempt.empty() && policy.exempt.includes(exchange.client, exchange.user)) {
        return Fault::none;
    }
    const limit::Tier* const tier = tier_of(policy, exchange.tier);
    if (tier != nullptr && tier->limits.empty()) return Fault::none;
    const std::size_t first = exchange.spans.size();
    for (const limit::Key& key : policy.key) {
        const Made made = maker.make(key);
        if (made == Made::unclear) return Fault::ambiguous_name;
        if (made == Made::missing) {
            if (key.on_missing == limit::OnMissing::reject) return Fault::nobody;
            if (key.on_missing == limit::OnMissing::skip) continue;
            maker.make_shared(key);
        }
        add_items(policy, tier, first, maker.made(), exchange);
    }
    // Leaving out every key must not be a way around the policy.
    return exchange.spans.size() == first ? Fault::nobody : Fault::none;
}

void drop_items(Exchange& exchange, std::size_t from) {
    exchange.decision.items.resize(from, {nullptr, {}});
    exchange.spans.resize(from);
}

std::int64_t cost_of(WorkerContext& worker, const Exchange& exchange) {
    const config::Route& route = *exchange.route;
    if (!route.header_cost) return route.cost;
    const config::HeaderCost& source = *route.header_cost;
    const Stated stated = http::stated_in_fields(exchange.request.fields, source.field,
                                                 exchange.framing.names_fields);
    if (stated.how == Stated::How::absent) return route.cost;
    if (!source.from_anyone && !exchange.peer_trusted) {
        worker.metrics.count_cost_ignored(CostFault::untrusted);
        return route.cost;
    }
    const auto cost = parse_decimal(stated.value);
    if (stated.how == Stated::How::unclear || !cost) {
        worker.metrics.count_cost_ignored(CostFault::unreadable);
        return route.cost;
    }
    if (*cost < source.min || *cost > source.max) {
        worker.metrics.count_cost_ignored(CostFault::out_of_range);
        return route.cost;
    }
    return *cost;
}

// The moment the request is meant for, or why there is none.
struct Moment {
    std::optional<Micros> at;
    std::string_view fault;
};

Moment read_moment(const Exchange& exchange) {
    const config::MomentSource& source = *exchange.route->moment;
    const http::RequestHead& request = exchange.request;
    const Stated stated =
        source.in == config::MomentSource::In::header
            ? http::stated_in_fields(request.fields, source.name, exchange.framing.names_fields)
            : http::stated_in_query(request.query, source.name);
    if (stated.how == Stated::How::absent) {
        return {std::nullopt, "The request does not say when it is meant for."};
    }
    if (stated.how == Stated::How::unclear) {
        return {std::nullopt, "The request says in more than one way when it is meant for."};
    }
    const auto at = parse_timestamp(stated.value);
    if (at) return {at, {}};
    return {std::nullopt,
            "The moment the request is meant for is neither RFC 3339 nor Unix seconds."};
}

// Schedules in shadow for which the moment will not do are left out; others end the request.
void apply_moment(Exchange& exchange) {
    store::Decision& decision = exchange.decision;
    const auto& lists = exchange.config().limit_lists;
    const auto schedules = [&](const limit::ChargeItem& item) {
        return lists[list_of(item)].schedules;
    };
    if (std::none_of(decision.items.begin(), decision.items.end(), schedules)) return;
    const Moment moment = read_moment(exchange);
    const auto now = std::chrono::duration_cast<Micros>(exchange.began_at.time_since_epoch());
    const auto will_not_do = [&](const limit::ChargeItem& item) {
        return schedules(item) && (!moment.at || *moment.at > now + lists[list_of(item)].horizon);
    };
    for (const limit::ChargeItem& item : decision.items) {
        if (item.policy->shadow || !will_not_do(item)) continue;
        exchange.fault = Fault::bad_moment;
        exchange.fault_detail =
            moment.at ? "The moment the request is meant for is further ahead than allowed."
                      : moment.fault;
        decision.items.clear();
        return;
    }
    std::erase_if(decision.items, will_not_do);
    decision.moment = moment.at.value_or(Micros{0});
}

}  // namespace

void list_charges(WorkerContext& worker, Exchange& exchange) {
    store::Decision& decision = exchange.decision;
    drop_items(exchange, 0);
    exchange.identifiers.clear();
    decision.cost = exchange.route->cost;
    if (is_denied(exchange)) {
        exchange.fault = Fault::denied;
        return;
    }
    IdentifierMaker maker(exchange);
    for (const config::Policy* policy : exchange.route->policies) {
        const std::size_t before = decision.items.size();
        const Fault fault = list_policy(*policy, maker, exchange);
        if (fault == Fault::none) continue;
        // A policy in shadow refuses nobody, not even those it cannot count.
        drop_items(exchange, policy->shadow ? before : 0);
        if (policy->shadow) continue;
        exchange.fault = fault;
        return;
    }
    if (decision.items.empty()) return;
    for (std::size_t i = 0; i < decision.items.size(); ++i) {
        decision.items[i].identifier = text_of(exchange, exchange.spans[i]);
    }
    decision.cost = cost_of(worker, exchange);
    if (exchange.route->moment) apply_moment(exchange);
    const auto& lists = exchange.config().limit_lists;
    decision.needs_settling =
        std::any_of(decision.items.begin(), decision.items.end(),
                    [&](const limit::ChargeItem& item) { return lists[list_of(item)].settles; });
}

}  // namespace tidegate::proxy

// What a request is charged: for whom, which limits, how much, and for which moment.
#include <algorithm>
#include <optional>

#include "base/timestamp.hpp"
#include "base/units.hpp"
#include "http/request_value.hpp"
#include "proxy/charge_notes.hpp"
#include "proxy/identifiers.hpp"
#include "proxy/street.hpp"

namespace tidegate::proxy {

namespace {

using http::RequestValue;
using limit::Micros;
using Made = IdentifierMaker::Made;
using telemetry::CostFault;

// The policy whose `deny` names the client; null: none does.
const config::Policy* denying_policy(const Exchange& exchange) {
    const auto& policies = exchange.route->policies;
    const auto found =
        std::find_if(policies.begin(), policies.end(), [&](const config::Policy* policy) {
            return !policy->shadow && !policy->deny.empty() &&
                   policy->deny.includes(exchange.client, exchange.user);
        });
    return found != policies.end() ? *found : nullptr;
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

using Outcome = ChargeNotes::Outcome;
using KeyOutcome = ChargeNotes::KeyOutcome;

// What becomes of a key that made an identifier, or could not.
KeyOutcome outcome_of(const limit::Key& key, Made made) {
    if (made == Made::some) return KeyOutcome::counted;
    if (made == Made::unclear) return KeyOutcome::unclear;
    switch (key.on_missing) {
        case limit::OnMissing::skip:
            return KeyOutcome::skipped;
        case limit::OnMissing::shared:
            return KeyOutcome::shared;
        case limit::OnMissing::reject:
            break;
    }
    return KeyOutcome::rejected;
}

// Finds whom `policy` counts, with the limits of `tier` if there is one.
Outcome list_keys(const config::Policy& policy, const limit::Tier* tier, IdentifierMaker& maker,
                  Exchange& exchange, ChargeNotes::Policy* note) {
    const std::size_t first = exchange.spans.size();
    for (const limit::Key& key : policy.key) {
        const KeyOutcome outcome = outcome_of(key, maker.make(key));
        if (note != nullptr) note->keys.push_back({&key, outcome});
        if (outcome == KeyOutcome::unclear) return Outcome::unclear;
        if (outcome == KeyOutcome::rejected) return Outcome::nobody;
        if (outcome == KeyOutcome::skipped) continue;
        if (outcome == KeyOutcome::shared) maker.make_shared(key);
        const auto made = maker.made();
        if (note != nullptr) note->keys.back().spans.assign(made.begin(), made.end());
        add_items(policy, tier, first, made, exchange);
    }
    // Leaving out every key must not be a way around the policy.
    return exchange.spans.size() == first ? Outcome::nobody : Outcome::counted;
}

Outcome list_policy(const config::Policy& policy, IdentifierMaker& maker, Exchange& exchange,
                    ChargeNotes::Policy* note) {
    if (!policy.exempt.empty() && policy.exempt.includes(exchange.client, exchange.user)) {
        return Outcome::exempt;
    }
    const limit::Tier* const tier = tier_of(policy, exchange.tier);
    if (note != nullptr) note->tier = tier;
    if (tier != nullptr && tier->limits.empty()) return Outcome::unlimited;
    return list_keys(policy, tier, maker, exchange, note);
}

// Why the request goes no further, if it does not.
Fault fault_of(Outcome outcome) {
    switch (outcome) {
        case Outcome::counted:
        case Outcome::exempt:
        case Outcome::unlimited:
            return Fault::none;
        case Outcome::denied:
            return Fault::denied;
        case Outcome::nobody:
            return Fault::nobody;
        case Outcome::unclear:
            break;
    }
    return Fault::ambiguous_name;
}

ChargeNotes::Policy* begin_note(ChargeNotes* notes, const config::Policy& policy) {
    return notes != nullptr ? &notes->policies.emplace_back(ChargeNotes::Policy{&policy}) : nullptr;
}

void drop_items(Exchange& exchange, std::size_t from) {
    exchange.decision.items.resize(from, {nullptr, {}});
    exchange.spans.resize(from);
}

struct Cost {
    std::int64_t units;
    bool stated = false;
    std::optional<CostFault> ignored{};
};

Cost cost_of(const Exchange& exchange) {
    const config::Route& route = *exchange.route;
    if (!route.header_cost) return {route.cost};
    const config::HeaderCost& source = *route.header_cost;
    const RequestValue stated = http::value_in_fields(exchange.request.fields, source.field);
    if (stated.how == RequestValue::How::absent) return {route.cost};
    if (!source.from_anyone && !exchange.peer_trusted) {
        return {route.cost, true, CostFault::untrusted};
    }
    const auto cost = parse_decimal(stated.value);
    if (stated.how == RequestValue::How::unclear || !cost) {
        return {route.cost, true, CostFault::unreadable};
    }
    if (*cost < source.min || *cost > source.max) {
        return {route.cost, true, CostFault::out_of_range};
    }
    return {*cost, true};
}

void apply_cost(WorkerContext& worker, Exchange& exchange, ChargeNotes* notes) {
    const Cost cost = cost_of(exchange);
    exchange.decision.cost = cost.units;
    if (cost.ignored) worker.metrics.count_cost_ignored(*cost.ignored);
    if (notes == nullptr) return;
    notes->cost_stated = cost.stated;
    notes->cost_ignored = cost.ignored;
}

// The moment the request is meant for, or why there is none.
struct Moment {
    std::optional<Micros> at;
    std::string_view fault;
};

Moment read_moment(const Exchange& exchange) {
    const config::MomentSource& source = *exchange.route->moment;
    const http::RequestHead& request = exchange.request;
    const RequestValue stated = source.in == config::MomentSource::In::header
                                    ? http::value_in_fields(request.fields, source.name)
                                    : http::value_in_query(request.query, source.name);
    if (stated.how == RequestValue::How::absent) {
        return {std::nullopt, "The request does not say when it is meant for."};
    }
    if (stated.how == RequestValue::How::unclear) {
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

// Only now do the identifiers no longer move.
void name_items(Exchange& exchange) {
    for (std::size_t i = 0; i < exchange.decision.items.size(); ++i) {
        exchange.decision.items[i].identifier = text_of(exchange, exchange.spans[i]);
    }
}

// Whether the address meets this key whoever its user turns out to be.
bool counts_the_address(const limit::Key& key) {
    const auto& first = key.choices.front();
    return first.size() == 1 && first.front().kind == limit::KeyPart::Kind::ip;
}

// Whether the limits of `policy` hold for the address, whoever its user turns out to be and
// whatever moment the request is for.
bool holds_for_the_address(const config::Policy& policy, const Exchange& exchange) {
    return !policy.shadow && policy.tiers.empty() && policy.exempt.users.empty() &&
           !policy.exempt.includes(exchange.client, std::nullopt) &&
           !exchange.config().limit_lists[policy.index].schedules;
}

bool needs_settling(const Exchange& exchange) {
    const auto& items = exchange.decision.items;
    const auto& lists = exchange.config().limit_lists;
    return std::any_of(items.begin(), items.end(),
                       [&](const limit::ChargeItem& item) { return lists[list_of(item)].settles; });
}

}  // namespace

bool is_turned_away(Exchange& exchange) {
    if (denying_policy(exchange) == nullptr) return false;
    exchange.fault = Fault::denied;
    return true;
}

bool list_limits_of_address(Exchange& exchange) {
    if (!exchange.client) return false;
    exchange.identifiers.clear();
    IdentifierMaker maker(exchange);
    for (const config::Policy* policy : exchange.route->policies) {
        const auto key = std::find_if(policy->key.begin(), policy->key.end(), counts_the_address);
        if (key == policy->key.end() || !holds_for_the_address(*policy, exchange)) continue;
        if (maker.make(*key) != Made::some) continue;
        add_items(*policy, nullptr, exchange.spans.size(), maker.made(), exchange);
    }
    if (exchange.decision.items.empty()) return false;
    name_items(exchange);
    exchange.decision.cost = cost_of(exchange).units;
    // What costs nothing passes whatever is counted.
    if (exchange.decision.cost == 0) drop_items(exchange, 0);
    return exchange.decision.cost > 0;
}

bool list_guess(Exchange& exchange) {
    const config::Policy* const policy = exchange.config().failed_credentials;
    if (policy == nullptr) return false;
    exchange.identifiers.clear();
    IdentifierMaker maker(exchange);
    // A client without an address cannot be told from others, whom it must not lock out.
    if (list_policy(*policy, maker, exchange, nullptr) != Outcome::counted) drop_items(exchange, 0);
    if (exchange.decision.items.empty()) return false;
    name_items(exchange);
    exchange.decision.cost = 1;
    exchange.decision.needs_settling = needs_settling(exchange);
    return true;
}

void forget_question(Exchange& exchange) {
    drop_items(exchange, 0);
    exchange.decision.result = store::Decision::Result::pending;
    exchange.decision.store_failed = exchange.decision.remembered = false;
    exchange.decision.needs_settling = false;
    exchange.ratelimit.clear();
}

void list_charges(WorkerContext& worker, Exchange& exchange, ChargeNotes* notes) {
    store::Decision& decision = exchange.decision;
    drop_items(exchange, 0);
    exchange.identifiers.clear();
    decision.cost = exchange.route->cost;
    if (const config::Policy* const denying = denying_policy(exchange)) {
        if (auto* const note = begin_note(notes, *denying)) note->outcome = Outcome::denied;
        exchange.fault = fault_of(Outcome::denied);
        return;
    }
    IdentifierMaker maker(exchange);
    for (const config::Policy* policy : exchange.route->policies) {
        const std::size_t before = decision.items.size();
        auto* const note = begin_note(notes, *policy);
        const Outcome outcome = list_policy(*policy, maker, exchange, note);
        if (note != nullptr) note->outcome = outcome;
        const Fault fault = fault_of(outcome);
        if (fault == Fault::none) continue;
        // A policy in shadow refuses nobody, not even those it cannot count.
        drop_items(exchange, policy->shadow ? before : 0);
        if (policy->shadow) continue;
        exchange.fault = fault;
        return;
    }
    if (decision.items.empty()) return;
    name_items(exchange);
    apply_cost(worker, exchange, notes);
    if (exchange.route->moment) apply_moment(exchange);
    decision.needs_settling = needs_settling(exchange);
}

}  // namespace tidegate::proxy

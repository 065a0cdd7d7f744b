// What follows: whom the route's policies count, by which limits, at what cost.
#include <algorithm>
#include <string>
#include <string_view>

#include "cli/explain_stage.hpp"
#include "proxy/charge_notes.hpp"
#include "proxy/identifiers.hpp"

namespace tidegate::cli {

namespace {

using proxy::ChargeNotes;
using proxy::Exchange;
using telemetry::CostFault;

Explanation::Key key_of(const Exchange& exchange, const ChargeNotes::Key& note) {
    Explanation::Key key{proxy::key_text(*note.key), note.outcome, {}};
    for (const proxy::IdentifierSpan span : note.spans) {
        key.identifiers.push_back(exchange.identifiers.substr(span.begin, span.size));
    }
    return key;
}

// Whether the policy is in shadow, and does without its items because the request's moment will not
// do. Where that ends the request, all are gone.
bool is_left_out(const Exchange& exchange, const ChargeNotes::Policy& note) {
    const auto& items = exchange.decision.items;
    return exchange.fault == proxy::Fault::none && note.outcome == ChargeNotes::Outcome::counted &&
           note.policy->shadow &&
           std::none_of(items.begin(), items.end(),
                        [&](const limit::ChargeItem& item) { return item.policy == note.policy; });
}

Explanation::Policy policy_of(const Exchange& exchange, const ChargeNotes::Policy& note) {
    Explanation::Policy policy{.name = note.policy->name,
                               .outcome = note.outcome,
                               .shadow = note.policy->shadow,

                               .left_out = is_left_out(exchange, note),
                               .tier = note.tier != nullptr ? note.tier->name : ""};
    for (const ChargeNotes::Key& key : note.keys) policy.keys.push_back(key_of(exchange, key));
    const limit::ChargeItem item{note.policy, {}, note.tier};
    for (std::size_t i = 0; i < item.limits().size(); ++i) {
        policy.limits.push_back(
            {exchange.generation->policy_texts.of(item, i).label, item.limits()[i]});
    }
    return policy;
}

std::string_view why_of_cost(const ChargeNotes& notes) {
    if (!notes.cost_ignored) return notes.cost_stated ? "stated by the request" : "of the route";
    switch (*notes.cost_ignored) {
        case CostFault::untrusted:
            return "of the route: what the request states is not believed from this peer";
        case CostFault::unreadable:
            return "of the route: what the request states is not one whole number";
        case CostFault::out_of_range:
            return "of the route: what the request states is out of bounds";
    }
    return {};
}

}  // namespace

void explain_charges(Stage& stage, Explanation& out) {
    Exchange& exchange = stage.exchange;
    ChargeNotes notes;
    list_charges(stage.worker, exchange, &notes);
    for (const ChargeNotes::Policy& note : notes.policies) {
        out.policies.push_back(policy_of(exchange, note));
    }
    if (exchange.fault != proxy::Fault::none || exchange.decision.items.empty()) return;
    out.cost = {exchange.decision.cost, why_of_cost(notes)};
    out.identifiers = exchange.decision.items.size();
    for (const limit::ChargeItem& item : exchange.decision.items) {
        out.limits += item.limits().size();
    }
}

}  // namespace tidegate::cli

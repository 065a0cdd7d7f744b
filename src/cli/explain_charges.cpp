// What the route's policies count a request by, with which limits and at what cost.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "ask/charge_list.hpp"
#include "ask/charge_notes.hpp"
#include "ask/identifiers.hpp"
#include "ask/identify.hpp"
#include "ask/policy_texts.hpp"
#include "cli/explain_request.hpp"

namespace tidegate::cli {

namespace {

using ask::ChargeNotes;
using ask::CostFault;

Explanation::Key key_of(const ask::Decision& decision, const ChargeNotes::Key& note) {
    Explanation::Key key{ask::key_text(*note.key), note.outcome, {}};
    for (const ask::IdentifierSpan span : note.spans) {
        key.identifiers.push_back(decision.identifiers.substr(span.begin, span.size));
    }
    return key;
}

// Whether a policy in shadow has no items because its schedule does not allow the request's moment.
// A policy that is enforced would refuse the request.
bool is_left_out(const ask::Decision& decision, const ChargeNotes::Policy& note) {
    const auto& items = decision.charge.items;
    return decision.goes_on() && note.outcome == ChargeNotes::Outcome::counted &&
           note.policy->shadow &&
           std::none_of(items.begin(), items.end(),
                        [&](const limit::ChargeItem& item) { return item.policy == note.policy; });
}

Explanation::Policy policy_of(const ExplainedRequest& request, const ChargeNotes::Policy& note) {
    Explanation::Policy policy{.name = note.policy->name,
                               .outcome = note.outcome,
                               .shadow = note.policy->shadow,
                               .left_out = is_left_out(request.decision, note),
                               .lacks_address = ask::lacks_address(*note.policy, request.decision),
                               .tier = note.tier != nullptr ? note.tier->name : ""};
    using Outcome = ChargeNotes::Outcome;
    if (note.outcome == Outcome::exempt || note.outcome == Outcome::denied) {
        const bool is_exempt = note.outcome == Outcome::exempt;
        const identity::ClientList& list = is_exempt ? note.policy->exempt : note.policy->deny;
        policy.listed_as = list.entry_for(ask::client_of(request.config(), request.decision));
    }
    for (const ChargeNotes::Key& key : note.keys)
        policy.keys.push_back(key_of(request.decision, key));
    const limit::ChargeItem item{note.policy, {}, note.tier};
    for (std::size_t i = 0; i < item.limits().size(); ++i) {
        policy.limits.push_back({request.rules.policy_texts.of(item, i).name, item.limits()[i]});
    }
    return policy;
}

std::string_view why_of_cost(const ChargeNotes& notes, std::optional<CostFault> ignored) {
    if (!ignored) return notes.cost_stated ? "stated by the request" : "of the route";
    switch (*ignored) {
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

void explain_notes(const ExplainedRequest& request, const ChargeNotes& notes, Explanation& out) {
    for (const ChargeNotes::Policy& note : notes.policies) {
        out.policies.push_back(policy_of(request, note));
    }
    const store::LimitDecision& charge = request.decision.charge;
    if (!request.decision.goes_on() || charge.items.empty()) return;
    out.cost = {charge.cost, {}};
    out.identifiers = charge.items.size();
    for (const limit::ChargeItem& item : charge.items) out.limits += item.limits().size();
}

void explain_charges(ExplainedRequest& request, Explanation& out) {
    ask::Decision& decision = request.decision;
    ChargeNotes notes;
    ask::list_charges(request.config(), request.facts, decision, &notes);
    explain_notes(request, notes, out);
    if (!out.cost) return;
    out.cost->why =
        decision.is_preflight ? "of a preflight" : why_of_cost(notes, decision.cost_ignored);
}

}  // namespace tidegate::cli

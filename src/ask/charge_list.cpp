#include "ask/charge_list.hpp"

#include <algorithm>
#include <chrono>

#include "ask/charge_notes.hpp"
#include "ask/cost.hpp"
#include "ask/identifiers.hpp"
#include "ask/identify.hpp"
#include "ask/moment.hpp"
#include "ask/policy_items.hpp"
#include "ask/policy_texts.hpp"

namespace tidegate::ask {

namespace {

using limit::Micros;
using Made = IdentifierMaker::Made;

// The first enforced policy of the route with a `deny` that lists the client; null: none.
template <class Lists>
const config::Policy* denying_policy(const Decision& decision, const Lists& lists) {
    const auto& policies = decision.route->policies;
    const auto found =
        std::find_if(policies.begin(), policies.end(), [&](const config::Policy* policy) {
            return !policy->shadow && !policy->deny.empty() && lists(policy->deny);
        });
    return found != policies.end() ? *found : nullptr;
}

constexpr std::string_view kNoAddressNoUser =
    "The request has neither a client address nor a user to count by.";

ChargeNotes::Policy* begin_note(ChargeNotes* notes, const config::Policy& policy) {
    return notes != nullptr ? &notes->policies.emplace_back(ChargeNotes::Policy{&policy}) : nullptr;
}

// Leaves out schedules in shadow for which the moment will not do; any other such schedule refuses
// the request.
void apply_moment(const config::Config& config, const Facts& facts, Decision& decision) {
    auto& items = decision.charge.items;
    const auto& lists = config.limit_lists;
    const auto schedules = [&](const limit::ChargeItem& item) {
        return lists[list_of(item)].schedules;
    };
    if (std::none_of(items.begin(), items.end(), schedules)) return;
    const Moment moment = moment_of(*decision.route, facts);
    const auto now = std::chrono::duration_cast<Micros>(facts.began_at.time_since_epoch());
    const auto will_not_do = [&](const limit::ChargeItem& item) {
        return schedules(item) && (!moment.at || *moment.at > now + lists[list_of(item)].horizon);
    };
    for (const limit::ChargeItem& item : items) {
        if (item.policy->shadow || !will_not_do(item)) continue;
        decision.refuse(Fault::bad_moment,
                        moment.at
                            ? "The moment the request is meant for is further ahead than allowed."
                            : moment.fault);
        items.clear();
        return;
    }
    std::erase_if(items, will_not_do);
    decision.charge.moment = moment.at.value_or(Micros{0});
}

// Whether this key counts the address of every request, with any user.
bool counts_the_address(const limit::Key& key) {
    const auto& first = key.choices.front();
    return first.size() == 1 && first.front().kind == limit::KeyPart::Kind::ip;
}

// Whether the limits of `policy` hold for the address with any user, and for any moment that the
// request is for.
bool holds_for_the_address(const config::Config& config, const config::Policy& policy,
                           const Decision& decision) {
    return !policy.shadow && policy.tiers.empty() && !policy.exempt.by_user &&
           !policy.exempt.includes(decision.client) && !config.limit_lists[policy.index].schedules;
}

bool needs_settling(const config::Config& config, const Decision& decision) {
    const auto& items = decision.charge.items;
    const auto& lists = config.limit_lists;
    return std::any_of(items.begin(), items.end(),
                       [&](const limit::ChargeItem& item) { return lists[list_of(item)].settles; });
}

// Lists the items of the route's policies. False: a policy refuses the request.
bool list_policies(const config::Config& config, IdentifierMaker& maker, Decision& decision,
                   ChargeNotes* notes) {
    for (const config::Policy* policy : decision.route->policies) {
        const std::size_t before = decision.charge.items.size();
        auto* const note = begin_note(notes, *policy);
        const PolicyOutcome outcome = list_policy(config, *policy, maker, decision, note);
        if (note != nullptr) note->outcome = outcome;
        const Fault fault = fault_of(outcome);
        if (fault == Fault::none) continue;
        // A policy in shadow refuses no request, not even one that it cannot count.
        drop_items(decision, policy->shadow ? before : 0);
        if (policy->shadow) continue;
        const bool lacks_both =
            outcome == PolicyOutcome::no_user && lacks_address(*policy, decision);
        decision.refuse(fault, lacks_both ? kNoAddressNoUser : std::string_view());
        return false;
    }
    return true;
}

// A policy's `deny` by network. Entries about users do not apply to a preflight.
bool is_network_denied(const Decision& decision) {
    const auto denies = [&](const config::Policy* policy) {
        return !policy->shadow && policy->deny.networks.contains(*decision.client);
    };
    const auto& policies = decision.route->policies;
    return decision.client && std::any_of(policies.begin(), policies.end(), denies);
}

// Every preflight costs one unit of its own limit, and no policy counts it.
void list_preflight(const config::Config& config, const Facts& facts, Decision& decision,
                    ChargeNotes* notes) {
    if (is_network_denied(decision)) return decision.refuse(Fault::denied);
    const config::Policy& policy = *decision.route->cors->preflight;
    IdentifierMaker maker(config, facts, decision);
    auto* const note = begin_note(notes, policy);
    const PolicyOutcome outcome = list_policy(config, policy, maker, decision, note);
    if (note != nullptr) note->outcome = outcome;
    // Without an address there is no key for its count, and it must not pass uncounted.
    if (const Fault fault = fault_of(outcome); fault != Fault::none) return decision.refuse(fault);
    name_items(decision);
    decision.charge.cost = 1;
    decision.charge.needs_settling = needs_settling(config, decision);
}

void apply_cost(const Facts& facts, Decision& decision, ChargeNotes* notes) {
    const Cost cost = cost_of(*decision.route, facts);
    decision.charge.cost = cost.units;
    decision.cost_ignored = cost.ignored;
    if (notes != nullptr) notes->cost_stated = cost.stated;
}

}  // namespace

bool lacks_address(const config::Policy& policy, const Decision& decision) {
    const auto is_address = [](const limit::KeyPart& part) {
        return part.kind == limit::KeyPart::Kind::ip;
    };
    return !decision.client &&
           std::any_of(policy.key.begin(), policy.key.end(), [&](const limit::Key& key) {
               return std::any_of(key.choices.begin(), key.choices.end(), [&](const auto& choice) {
                   return std::any_of(choice.begin(), choice.end(), is_address);
               });
           });
}

bool counts_grpc_status(const config::Config& config, const Decision& decision) {
    const auto& items = decision.charge.items;
    return std::any_of(items.begin(), items.end(), [&](const limit::ChargeItem& item) {
        return config.limit_lists[list_of(item)].counts_grpc;
    });
}

void list_charges(const config::Config& config, const Facts& facts, Decision& decision,
                  ChargeNotes* notes) {
    drop_items(decision, 0);
    decision.identifiers.clear();
    if (decision.is_preflight) return list_preflight(config, facts, decision, notes);
    decision.charge.cost = decision.route->cost;
    if (decision.route->policies.empty() && !decision.route->needs_user) return;
    const auto lists_client = [&](const identity::ClientList& deny) {
        return deny.includes(client_of(config, decision));
    };
    if (const config::Policy* const denying = denying_policy(decision, lists_client)) {
        if (auto* const note = begin_note(notes, *denying)) note->outcome = PolicyOutcome::denied;
        return decision.refuse(Fault::denied);
    }
    if (decision.route->needs_user && !decision.user) return decision.refuse(Fault::no_user);
    IdentifierMaker maker(config, facts, decision);
    if (!list_policies(config, maker, decision, notes) || decision.charge.items.empty()) return;
    name_items(decision);
    apply_cost(facts, decision, notes);
    if (decision.route->moment) apply_moment(config, facts, decision);
    decision.charge.needs_settling = needs_settling(config, decision);
}

void list_policy_charges(const config::Config& config, const config::Policy& policy,
                         const Facts& facts, Decision& decision, ChargeNotes* notes) {
    decision.identifiers.clear();
    auto* const note = begin_note(notes, policy);
    if (!policy.deny.empty() && policy.deny.includes(client_of(config, decision))) {
        if (note != nullptr) note->outcome = PolicyOutcome::denied;
        return decision.refuse(Fault::denied);
    }
    IdentifierMaker maker(config, facts, decision);
    const PolicyOutcome outcome = list_policy(config, policy, maker, decision, note);
    if (note != nullptr) note->outcome = outcome;
    const Fault fault = fault_of(outcome);
    if (fault != Fault::none) return decision.refuse(fault);
    name_items(decision);
}

void refuse_denied_client(Decision& decision) {
    const auto lists_address = [&](const identity::ClientList& deny) {
        return deny.includes(decision.client);
    };
    if (denying_policy(decision, lists_address) != nullptr) decision.refuse(Fault::denied);
}

bool list_address_limits(const config::Config& config, const Facts& facts, Decision& decision) {
    if (!decision.client) return false;
    decision.identifiers.clear();
    IdentifierMaker maker(config, facts, decision);
    for (const config::Policy* policy : decision.route->policies) {
        const auto key = std::find_if(policy->key.begin(), policy->key.end(), counts_the_address);
        if (key == policy->key.end() || !holds_for_the_address(config, *policy, decision)) continue;
        if (maker.make(*key) != Made::some) continue;
        add_items(*policy, nullptr, decision.spans.size(), maker, decision);
    }
    if (decision.charge.items.empty()) return false;
    name_items(decision);
    decision.charge.cost = cost_of(*decision.route, facts).units;
    // A request of cost 0 passes whatever is counted.
    if (decision.charge.cost == 0) drop_items(decision, 0);
    return decision.charge.cost > 0;
}

bool list_failed_credentials(const config::Config& config, const Facts& facts, Decision& decision) {
    const config::Policy* const policy = config.failed_credentials;
    if (policy == nullptr) return false;
    decision.identifiers.clear();
    IdentifierMaker maker(config, facts, decision);
    // A client without an address cannot be distinguished from others, which it must not lock out.
    if (list_policy(config, *policy, maker, decision, nullptr) != PolicyOutcome::counted)
        drop_items(decision, 0);
    if (decision.charge.items.empty()) return false;
    name_items(decision);
    decision.charge.cost = 1;
    decision.charge.needs_settling = needs_settling(config, decision);
    return true;
}

void clear_charge(Decision& decision) {
    drop_items(decision, 0);
    decision.charge.result = store::LimitDecision::Result::pending;
    decision.charge.store_failed = decision.charge.remembered = false;
    decision.charge.is_partial = decision.charge.needs_settling = false;
    decision.ratelimit.clear();
}

}  // namespace tidegate::ask

#include "ask/policy_items.hpp"

#include <algorithm>
#include <string_view>

#include "ask/charge_notes.hpp"
#include "ask/identify.hpp"

namespace tidegate::ask {

namespace {

using Made = IdentifierMaker::Made;
using KeyOutcome = ChargeNotes::KeyOutcome;

// Null: the policy's own limits hold.
const limit::Tier* tier_of(const limit::Policy& policy, std::string_view name) {
    if (name.empty()) return nullptr;
    for (const limit::Tier& tier : policy.tiers) {
        if (tier.name == name) return &tier;
    }
    return nullptr;
}

std::string_view text_of(const Decision& decision, IdentifierSpan span) {
    return std::string_view(decision.identifiers).substr(span.begin, span.size);
}

// The result for a key that made an identifier, or could not.
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

// Whether a user, or the token of one, makes an identifier of `key`.
bool wants_user(const limit::Key& key) {
    using Kind = limit::KeyPart::Kind;
    const auto is_of_user = [](const limit::KeyPart& part) {
        return part.kind == Kind::user || part.kind == Kind::claim;
    };
    return std::any_of(key.choices.begin(), key.choices.end(), [&](const auto& choice) {
        return std::any_of(choice.begin(), choice.end(), is_of_user);
    });
}

// Of a request that has none of the `keys` of a policy. Credentials help an anonymous client where
// some method of the configuration takes them.
PolicyOutcome outcome_without(std::span<const limit::Key> keys, const config::Config& config,
                              const Decision& decision) {
    const bool would_help = !decision.user && !config.user_methods.empty() &&
                            std::any_of(keys.begin(), keys.end(), wants_user);
    return would_help ? PolicyOutcome::no_user : PolicyOutcome::no_identifier;
}

// Appends the items that `policy` counts, with the limits of `tier` if there is one.
PolicyOutcome list_keys(const config::Config& config, const config::Policy& policy,
                        const limit::Tier* tier, IdentifierMaker& maker, Decision& decision,
                        ChargeNotes::Policy* note) {
    const std::size_t first = decision.spans.size();
    for (const limit::Key& key : policy.key) {
        const KeyOutcome outcome = outcome_of(key, maker.make(key));
        if (note != nullptr) note->keys.push_back({&key, outcome});
        if (outcome == KeyOutcome::unclear) return PolicyOutcome::unclear;
        if (outcome == KeyOutcome::rejected) return outcome_without({&key, 1}, config, decision);
        if (outcome == KeyOutcome::skipped) continue;
        if (outcome == KeyOutcome::shared) maker.make_shared(key);
        const auto made = maker.made();
        if (note != nullptr) note->keys.back().spans.assign(made.begin(), made.end());
        add_items(policy, tier, first, maker, decision);
    }
    if (decision.spans.size() != first) return PolicyOutcome::counted;
    // Unless the operator has written so, a client cannot avoid the policy by leaving out every
    // key.
    return policy.may_skip ? PolicyOutcome::skipped : outcome_without(policy.key, config, decision);
}

}  // namespace

void add_items(const limit::Policy& policy, const limit::Tier* tier, std::size_t first,
               const IdentifierMaker& maker, Decision& decision) {
    for (const IdentifierSpan span : maker.made()) {
        const bool known =
            std::any_of(decision.spans.begin() + static_cast<std::ptrdiff_t>(first),
                        decision.spans.end(), [&](IdentifierSpan other) {
                            return text_of(decision, other) == text_of(decision, span);
                        });
        if (known) continue;
        decision.charge.items.push_back({&policy, {}, tier, maker.is_of_client()});
        decision.spans.push_back(span);
    }
}

PolicyOutcome list_policy(const config::Config& config, const config::Policy& policy,
                          IdentifierMaker& maker, Decision& decision, ChargeNotes::Policy* note) {
    if (!policy.exempt.empty() && policy.exempt.includes(client_of(config, decision))) {
        return PolicyOutcome::exempt;
    }
    const limit::Tier* const tier = tier_of(policy, decision.tier);
    if (note != nullptr) note->tier = tier;
    if (tier != nullptr && tier->limits.empty()) return PolicyOutcome::unlimited;
    return list_keys(config, policy, tier, maker, decision, note);
}

Fault fault_of(PolicyOutcome outcome) {
    switch (outcome) {
        case PolicyOutcome::counted:
        case PolicyOutcome::exempt:
        case PolicyOutcome::unlimited:
        case PolicyOutcome::skipped:
            return Fault::none;
        case PolicyOutcome::denied:
            return Fault::denied;
        case PolicyOutcome::no_identifier:
            return Fault::no_identifier;
        case PolicyOutcome::no_user:
            return Fault::no_user;
        case PolicyOutcome::unclear:
            break;
    }
    return Fault::ambiguous_name;
}

void drop_items(Decision& decision, std::size_t from) {
    const auto begin = static_cast<std::ptrdiff_t>(from);
    decision.charge.items.erase(decision.charge.items.begin() + begin, decision.charge.items.end());
    decision.spans.resize(from);
}

void name_items(Decision& decision) {
    for (std::size_t i = 0; i < decision.charge.items.size(); ++i) {
        decision.charge.items[i].identifier = text_of(decision, decision.spans[i]);
    }
}

}  // namespace tidegate::ask

#include "ask/charge_list.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ask/identifiers.hpp"
#include "ask/identify.hpp"
#include "ask/policy_cost.hpp"
#include "ask/ruleset.hpp"
#include "base/described_enum.hpp"
#include "base/timestamp.hpp"
#include "base/units.hpp"
#include "config/claimed_quotas.hpp"
#include "config/config.hpp"
#include "http/query_and_method_override.hpp"
#include "identity/digest.hpp"
#include "identity/identifier.hpp"
#include "limit/limit.hpp"

namespace tidegate::ask {

namespace {

using http::RequestValue;
using limit::Micros;
using Made = IdentifierMaker::Made;

// What a request costs: the route's cost, or the number that a header field states, where the route
// lets it.
struct RequestCost {
    std::int64_t units;
    bool stated = false;                 // the request has the field
    std::optional<CostFault> ignored{};  // why it does not count
};

RequestCost cost_of(const config::Route& route, const Facts& facts) {
    if (!route.header_cost) return {route.cost};
    const config::HeaderCost& source = *route.header_cost;
    const RequestValue stated = http::value_in_fields(facts.head.fields, source.field);
    if (stated.how == RequestValue::How::absent) return {route.cost};
    if (!source.from_anyone && !facts.peer.trusted) {
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

// The moment a request is meant for, which limits of `schedule` count.
struct RequestMoment {
    std::optional<limit::Micros> at;
    std::string_view fault;  // why there is none, for the client
};

RequestMoment moment_of(const config::Route& route, const Facts& facts) {
    const config::MomentSource& source = *route.moment;
    const RequestValue stated = source.in == config::MomentSource::In::header
                                    ? http::value_in_fields(facts.head.fields, source.name)
                                    : http::value_in_query(facts.head.query, source.name);
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

// Null: the policy's own limits hold.
const limit::Tier* tier_of(const limit::Policy& policy, std::string_view name) {
    if (name.empty()) return nullptr;
    for (const limit::Tier& tier : policy.tiers) {
        if (tier.name == name) return &tier;
    }
    return nullptr;
}

// The limits of `tier`, or without one the policy's own, with the quotas that the request's token
// states. `tier` where it states none.
const limit::Tier* claimed_tier_of(const config::Config& config,
                                   const config::PolicySettings& policy, const limit::Tier* tier,
                                   const Decision& decision) {
    const std::string_view claims = decision.authentication->claims;
    if (claims.empty()) return tier;
    // A program that names claims in the check API needs no method of tokens.
    const auto& methods = config.user_methods;
    const std::string_view space =
        methods.empty() ? std::string_view() : methods[decision.authentication->method].space;
    const std::size_t list =
        tier != nullptr ? static_cast<std::size_t>(tier - policy.tiers.data()) + 1 : 0;
    std::array<const config::ClaimedQuota*, limit::kLimitsMax> claimed{};
    std::array<std::int64_t, limit::kLimitsMax> quotas{};
    std::size_t count = 0;
    bool states_any = false;
    for (const config::ClaimedQuota& one : policy.claimed_quotas) {
        if (one.list != list) continue;
        const auto claim = identity::claim_identifier(claims, one.claim);
        const std::int64_t quota = one.quota_for(identity::claim_value(claim, space));
        states_any = states_any || quota != one.spec.quota;
        claimed[count] = &one;
        quotas[count++] = quota;
    }
    if (!states_any) return tier;
    const limit::Tier* const made = config.claimed_tiers->find(
        policy, tier, std::span(claimed).first(count), std::span(quotas).first(count));
    return made != nullptr ? made : tier;
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

// Whether a user, or the token of one, makes the value of the part.
bool is_of_user(const limit::KeyPart& part) {
    return part.kind == limit::KeyPart::Kind::user || part.kind == limit::KeyPart::Kind::claim;
}

// The outcome for a request that has none of the `keys` of a policy. Credentials help an anonymous
// client where some method of the configuration takes them.
PolicyOutcome outcome_without(std::span<const limit::Key> keys, const config::Config& config,
                              Decision& decision) {
    decision.fault_part = limit::find_part(keys, &limit::KeyPart::reads_body);
    const bool would_help =
        !decision.user && !config.user_methods.empty() && limit::any_part(keys, is_of_user);
    return would_help ? PolicyOutcome::no_user : PolicyOutcome::no_identifier;
}

// A policy with the tier that holds for the request; without one its own limits hold.
struct Counting {
    const config::PolicySettings& policy;
    const limit::Tier* tier = nullptr;
    const limit::Tier* unenforced_tier = nullptr;  // of policy.unenforced
};

Counting counting_of(const config::Config& config, const config::PolicySettings& policy,
                     const Decision& decision) {
    const auto tier_in = [&](const config::PolicySettings& one) {
        const limit::Tier* const tier = tier_of(one, decision.tier);
        return one.claimed_quotas.empty() ? tier : claimed_tier_of(config, one, tier, decision);
    };
    Counting counting{policy, tier_in(policy)};
    if (policy.unenforced != nullptr) counting.unenforced_tier = tier_in(*policy.unenforced);
    return counting;
}

limit::ChargeItem make_item(const Counting& counting, std::string_view identifier, bool of_client) {
    const config::PolicySettings* const unenforced = counting.policy.unenforced;
    if (unenforced == nullptr || is_in_share(counting.policy, identifier)) {
        return {&counting.policy, {}, counting.tier, of_client};
    }
    return {unenforced, {}, counting.unenforced_tier, of_client};
}

// Appends an item for each identifier that `maker` has made and that the policy, whose first item
// is at `first`, does not count yet.
void add_items(const Counting& counting, std::size_t first, const IdentifierMaker& maker,
               Decision& decision) {
    for (const IdentifierSpan span : maker.made()) {
        const bool known =
            std::any_of(decision.spans.begin() + static_cast<std::ptrdiff_t>(first),
                        decision.spans.end(), [&](IdentifierSpan other) {
                            return text_of(decision, other) == text_of(decision, span);
                        });
        if (known) continue;
        decision.charge.items.push_back(
            make_item(counting, text_of(decision, span), maker.is_of_client()));
        decision.spans.push_back(span);
    }
}

// Appends the items that a policy counts.
PolicyOutcome list_keys(const config::Config& config, const Counting& counting,
                        IdentifierMaker& maker, Decision& decision, ChargeNotes::Policy* note) {
    const config::PolicySettings& policy = counting.policy;
    const std::size_t first = decision.spans.size();
    for (const limit::Key& key : policy.key) {
        const KeyOutcome outcome = outcome_of(key, maker.make(key));
        if (note != nullptr) note->keys.push_back({&key, outcome});
        if (outcome == KeyOutcome::unclear) {
            decision.fault_part = maker.unclear_body_part();
            return PolicyOutcome::unclear;
        }
        if (outcome == KeyOutcome::rejected) return outcome_without({&key, 1}, config, decision);
        if (outcome == KeyOutcome::skipped) continue;
        if (outcome == KeyOutcome::shared) maker.make_shared(key);
        const auto made = maker.made();
        if (note != nullptr) note->keys.back().spans.assign(made.begin(), made.end());
        add_items(counting, first, maker, decision);
    }
    if (decision.spans.size() != first) return PolicyOutcome::counted;
    // Unless the operator has written so, a client cannot avoid the policy by leaving out every
    // key.
    return policy.may_skip ? PolicyOutcome::skipped : outcome_without(policy.key, config, decision);
}

// Leaves the first `from` items.
void drop_items(Decision& decision, std::size_t from) {
    const auto begin = static_cast<std::ptrdiff_t>(from);
    decision.charge.items.erase(decision.charge.items.begin() + begin, decision.charge.items.end());
    decision.spans.resize(from);
}

// Appends the items of a candidate: the identifiers of the policy that it would replace, whose
// items are those from `first` on. Where that policy counts nothing, as the client's tier is
// unlimited there, the candidate makes them itself.
void list_candidate(const config::Config& config, const config::PolicySettings& candidate,
                    std::size_t first, IdentifierMaker& maker, Decision& decision) {
    const Counting counting = counting_of(config, candidate, decision);
    if (counting.tier != nullptr && counting.tier->limits.empty()) return;
    auto& items = decision.charge.items;
    const std::size_t end = items.size();
    if (first == end &&
        list_keys(config, counting, maker, decision, nullptr) != PolicyOutcome::counted) {
        drop_items(decision, end);
    }
    for (std::size_t i = first; i < end; ++i) {
        const bool of_client = items[i].of_client;
        items.push_back({&candidate, {}, counting.tier, of_client});
        const IdentifierSpan span = decision.spans[i];
        decision.spans.push_back(span);
    }
}

// Appends the items that `policy` counts, with the limits of the client's tier if it has that, and
// those of its candidate. With `note`, that gets the reasons.
PolicyOutcome list_policy(const config::Config& config, const config::PolicySettings& policy,
                          IdentifierMaker& maker, Decision& decision, ChargeNotes::Policy* note) {
    if (!policy.exempt.empty() && policy.exempt.includes(client_of(config, decision))) {
        return PolicyOutcome::exempt;
    }
    const Counting counting = counting_of(config, policy, decision);
    if (note != nullptr) note->tier = counting.tier;
    const std::size_t first = decision.charge.items.size();
    const bool is_unlimited = counting.tier != nullptr && counting.tier->limits.empty();
    const PolicyOutcome outcome = is_unlimited ? PolicyOutcome::unlimited
                                               : list_keys(config, counting, maker, decision, note);
    const bool goes_on = is_unlimited || outcome == PolicyOutcome::counted;
    if (policy.candidate != nullptr && goes_on) {
        list_candidate(config, *policy.candidate, first, maker, decision);
    }
    return outcome;
}

// Why the request goes no further, if it does not.
constexpr EnumTable<PolicyOutcome, Fault> kPolicyFaults(
    {{PolicyOutcome::counted, Fault::none},
     {PolicyOutcome::exempt, Fault::none},
     {PolicyOutcome::unlimited, Fault::none},
     {PolicyOutcome::denied, Fault::denied},
     {PolicyOutcome::skipped, Fault::none},
     {PolicyOutcome::no_identifier, Fault::no_identifier},
     {PolicyOutcome::no_user, Fault::no_user},
     {PolicyOutcome::unclear, Fault::ambiguous_name}});

// Points the items at their identifiers. Requires that all are written: later, their bytes may not
// move.
void name_items(Decision& decision) {
    for (std::size_t i = 0; i < decision.charge.items.size(); ++i) {
        decision.charge.items[i].identifier = text_of(decision, decision.spans[i]);
    }
}

// The first enforced policy of the route with a `deny` that lists the client; null: none.
template <class Lists>
const config::PolicySettings* denying_policy(const Decision& decision, const Lists& lists) {
    const auto& policies = decision.route->policies;
    const auto found =
        std::find_if(policies.begin(), policies.end(), [&](const config::PolicySettings* policy) {
            return policy->is_enforced() && !policy->deny.empty() && lists(policy->deny);
        });
    return found != policies.end() ? *found : nullptr;
}

constexpr std::string_view kNoAddressNoUser =
    "The request has neither a client address nor a user to count by.";

ChargeNotes::Policy* begin_note(ChargeNotes* notes, const config::PolicySettings& policy) {
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
    const RequestMoment moment = moment_of(*decision.route, facts);
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
bool holds_for_the_address(const config::Config& config, const config::PolicySettings& policy,
                           const Decision& decision) {
    return !policy.shadow && policy.candidate == nullptr && policy.tiers.empty() &&
           policy.claimed_quotas.empty() && !policy.exempt.by_user &&
           !policy.exempt.includes(decision.client) && !config.limit_lists[policy.index].schedules;
}

// Drops the items from `first` on of policies that refuse no request.
void drop_unenforced(Decision& decision, std::size_t first) {
    auto& items = decision.charge.items;
    std::size_t kept = first;
    for (std::size_t i = first; i < items.size(); ++i) {
        if (items[i].policy->shadow) continue;
        items[kept] = items[i];
        decision.spans[kept++] = decision.spans[i];
    }
    drop_items(decision, kept);
}

bool needs_settling(const config::Config& config, const Decision& decision) {
    const auto& items = decision.charge.items;
    const auto& lists = config.limit_lists;
    return std::any_of(items.begin(), items.end(),
                       [&](const limit::ChargeItem& item) { return lists[list_of(item)].settles; });
}

// Without a detail, the answer names the model that has no price.
void refuse_without_price(const Facts& facts, Decision& decision) {
    std::string_view detail;
    if (decision.model.empty()) {
        const bool is_read = facts.body == nullptr || facts.body->is_whole;
        detail = is_read ? "Tidegate finds no model in the request, and its cost is counted in "
                           "money: the body has to be a JSON object with one member `model`, a "
                           "text of at most 256 bytes without commas, in UTF-8."
                         : "The body is too long for Tidegate to read its model, and its cost is "
                           "counted in money.";
    }
    decision.refuse(Fault::no_price, detail);
}

// Sets what the policy reserves for the items from `first` on.
Fault reserve(const config::Config& config, const config::PolicyCost& cost, const Facts& facts,
              std::size_t first, Decision& decision) {
    if (decision.model.empty()) decision.model = model_of(facts);
    if (cost.needs_price() && config.prices && !decision.model.empty() && !decision.price_row) {
        decision.price_row = config.prices->row_of(decision.model);
    }
    const usage::Rates* const rates = rates_at(
        config, cost, decision.model, decision.price_row.value_or(usage::PriceList::kNoRow));
    if (rates == nullptr) {
        // A log need not name the model; the simulation sets what the request has cost.
        const bool is_unknown = facts.is_logged && decision.model.empty();
        return is_unknown ? Fault::none : Fault::no_price;
    }
    const std::int64_t units = reserved_units(config, cost, facts, *rates);
    for (std::size_t i = first; i < decision.charge.items.size(); ++i) {
        decision.charge.items[i].own_cost = units;
    }
    return Fault::none;
}

// Whether a policy that cannot count the request refuses it: one in shadow does not, and one with
// `enforce` does so by its share. `first`: where its items begin.
bool refuses_uncounted(const config::PolicySettings& policy, std::size_t first,
                       const Decision& decision) {
    if (policy.shadow) return false;
    const auto listed = std::span(decision.charge.items).subspan(first);
    if (!listed.empty()) {
        return std::any_of(listed.begin(), listed.end(),
                           [](const limit::ChargeItem& item) { return !item.policy->shadow; });
    }
    if (policy.unenforced == nullptr) return true;
    std::string address = "ip:";
    if (decision.client) decision.client->append_to(address);
    return is_in_share(policy, address);
}

// Lists the items of the route's policies. False: a policy refuses the request.
bool list_policies(const config::Config& config, const Facts& facts, IdentifierMaker& maker,
                   Decision& decision, ChargeNotes* notes) {
    for (const config::PolicySettings* policy : decision.route->policies) {
        const std::size_t before = decision.charge.items.size();
        auto* const note = begin_note(notes, *policy);
        const PolicyOutcome outcome = list_policy(config, *policy, maker, decision, note);
        if (note != nullptr) note->outcome = outcome;
        Fault fault = kPolicyFaults[outcome];
        if (fault == Fault::none && policy->cost != nullptr) {
            fault = reserve(config, *policy->cost, facts, before, decision);
        }
        if (fault == Fault::none) continue;
        const bool refuses = refuses_uncounted(*policy, before, decision);
        drop_items(decision, refuses ? 0 : before);
        if (!refuses) continue;
        if (fault == Fault::no_price) {
            refuse_without_price(facts, decision);
            return false;
        }
        const bool lacks_both =
            outcome == PolicyOutcome::no_user && lacks_address(*policy, decision);
        decision.refuse(fault, lacks_both ? kNoAddressNoUser : std::string_view());
        return false;
    }
    return true;
}

// A policy's `deny` by network. Entries about users do not apply to a preflight.
bool is_network_denied(const Decision& decision) {
    const auto denies = [&](const config::PolicySettings* policy) {
        return policy->is_enforced() && policy->deny.networks.contains(*decision.client);
    };
    const auto& policies = decision.route->policies;
    return decision.client && std::any_of(policies.begin(), policies.end(), denies);
}

// Every preflight costs one unit of its own limit, and no policy counts it.
void list_preflight(const config::Config& config, const Facts& facts, Decision& decision,
                    ChargeNotes* notes) {
    if (is_network_denied(decision)) return decision.refuse(Fault::denied);
    const config::PolicySettings& policy = *decision.route->cors->preflight;
    IdentifierMaker maker(config, facts, decision);
    auto* const note = begin_note(notes, policy);
    const PolicyOutcome outcome = list_policy(config, policy, maker, decision, note);
    if (note != nullptr) note->outcome = outcome;
    // Without an address there is no key for its count, and it must not pass uncounted.
    if (const Fault fault = kPolicyFaults[outcome]; fault != Fault::none)
        return decision.refuse(fault);
    name_items(decision);
    decision.charge.cost = 1;
    decision.charge.needs_settling = needs_settling(config, decision);
}

void apply_cost(const Facts& facts, Decision& decision, ChargeNotes* notes) {
    const RequestCost cost = cost_of(*decision.route, facts);
    decision.charge.cost = cost.units;
    decision.cost_ignored = cost.ignored;
    if (notes != nullptr) notes->cost_stated = cost.stated;
}

}  // namespace

bool is_in_share(const config::PolicySettings& policy, std::string_view identifier) {
    std::string text;
    text.reserve(policy.name.size() + 1 + identifier.size());
    text.append(policy.name).append(1, '\0').append(identifier);
    const identity::Sha256 digest = identity::sha256(text);
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i) number = number << 8 | digest[i];
    return number < policy.enforced_below;
}

bool lacks_address(const config::PolicySettings& policy, const Decision& decision) {
    return !decision.client && limit::counts_by(policy.key, limit::KeyPart::Kind::ip);
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
    if (const config::PolicySettings* const denying = denying_policy(decision, lists_client)) {
        if (auto* const note = begin_note(notes, *denying)) note->outcome = PolicyOutcome::denied;
        return decision.refuse(Fault::denied);
    }
    if (decision.route->needs_user && !decision.user) return decision.refuse(Fault::no_user);
    IdentifierMaker maker(config, facts, decision);
    if (!list_policies(config, facts, maker, decision, notes) || decision.charge.items.empty())
        return;
    name_items(decision);
    apply_cost(facts, decision, notes);
    if (decision.route->moment) apply_moment(config, facts, decision);
    decision.charge.needs_settling = needs_settling(config, decision);
}

void list_policy_charges(const config::Config& config, const config::PolicySettings& policy,
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
    const Fault fault = kPolicyFaults[outcome];
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
    for (const config::PolicySettings* policy : decision.route->policies) {
        const auto key = std::find_if(policy->key.begin(), policy->key.end(), counts_the_address);
        if (key == policy->key.end() || !holds_for_the_address(config, *policy, decision)) continue;
        if (maker.make(*key) != Made::some) continue;
        const std::size_t first = decision.charge.items.size();
        add_items({*policy}, first, maker, decision);
        if (policy->unenforced != nullptr) drop_unenforced(decision, first);
        if (policy->cost == nullptr) continue;
        // What a body will cost is not known yet: whether there is room for one unit.
        const std::int64_t least = policy->cost->reads_body() ? 1 : policy->cost->reserved;
        for (std::size_t i = first; i < decision.charge.items.size(); ++i) {
            decision.charge.items[i].own_cost = least;
        }
    }
    if (decision.charge.items.empty()) return false;
    name_items(decision);
    decision.charge.cost = cost_of(*decision.route, facts).units;
    // A request of cost 0 passes whatever is counted.
    if (decision.charge.cost == 0) drop_items(decision, 0);
    return decision.charge.cost > 0;
}

bool list_failed_credentials(const config::Config& config, const Facts& facts, Decision& decision) {
    const config::PolicySettings* const policy = config.failed_credentials;
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

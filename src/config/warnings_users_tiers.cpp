// Warnings about policies and routes that distinguish users, tiers and anonymous clients: some
// clients meet no limit, or no client can be what a policy names.
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "base/utf8.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

using limit::Key;
using limit::KeyPart;
using Kind = KeyPart::Kind;

bool is_made_up(const identity::UserMethod& method) {
    return !method.how->traits().authenticates;
}

bool has_claims(const identity::UserMethod& method) {
    return method.how->traits().reads_claims;
}

bool any_method(const Config& config, bool (*is_such)(const identity::UserMethod&)) {
    return std::any_of(config.user_methods.begin(), config.user_methods.end(), is_such);
}

// How messages name a policy.
std::string subject_of(const PolicySettings& policy, const Declared& declared) {
    const bool is_named = declared.policies.contains(policy.name);
    return is_named ? "policies." + policy.name : "the policy " + quote(policy.name);
}

// A kind of client of which the reader knows beforehand which keys a request has.
struct Sender {
    std::string_view text;
    bool has_user;
    bool authenticated;
};

constexpr Sender kAnonymous{"a request without a user", false, false};
constexpr Sender kCookie{"a request of a user by `cookie`", true, false};
constexpr Sender kAuthenticated{"a request of a user", true, true};

// Whether every request of the sender has what the key names.
bool is_always_there(const Key& key, const Sender& sender) {
    const auto is_there = [&](const KeyPart& part) {
        switch (part.kind) {
            case Kind::ip:
            case Kind::route:
            case Kind::constant:
            case Kind::capture:
            case Kind::method:
                return true;
            case Kind::user:
                return sender.has_user;
            case Kind::header:
            case Kind::query:
            case Kind::host:
            case Kind::claim:
            case Kind::cookie:
            case Kind::body:
            case Kind::body_lower:
            case Kind::form:
                break;
        }
        return false;
    };
    return std::any_of(key.choices.begin(), key.choices.end(), [&](const auto& choice) {
        return std::all_of(choice.begin(), choice.end(), is_there);
    });
}

bool exempts(const PolicySettings& policy, const Sender& sender) {
    return sender.authenticated ? policy.exempt.authenticated : policy.exempt.anonymous;
}

// Whether the policy counts every request of the sender, or refuses it. Networks, users and tiers
// that a policy exempts were chosen one by one.
bool limits_all(const PolicySettings& policy, const Sender& sender) {
    if (policy.shadow || policy.soft || exempts(policy, sender)) return false;
    return !policy.may_skip ||
           std::any_of(policy.key.begin(), policy.key.end(),
                       [&](const Key& key) { return is_always_there(key, sender); });
}

// The policy whose `on_missing: skip` lets requests of the sender pass without any limit; null:
// none.
const PolicySettings* policy_passed_by(const Route& route, const Sender& sender) {
    const auto& policies = route.policies;
    const auto limits = [&](const PolicySettings* policy) { return limits_all(*policy, sender); };
    if (std::any_of(policies.begin(), policies.end(), limits)) return nullptr;
    const auto skips =
        std::find_if(policies.begin(), policies.end(), [&](const PolicySettings* policy) {
            return policy->may_skip && !policy->shadow && !policy->soft &&
                   !exempts(*policy, sender);
        });
    return skips != policies.end() ? *skips : nullptr;
}

bool can_come(const Sender& sender, const Route& route, const Config& config) {
    if (!sender.has_user) return !route.needs_user;
    if (!sender.authenticated) return any_method(config, is_made_up);
    return !std::all_of(config.user_methods.begin(), config.user_methods.end(), is_made_up);
}

// A route where a request can meet no limit at all.
void warn_about_unlimited_senders(const Config& config, const Declared& declared,
                                  Context& context) {
    constexpr std::array kSenders{kAnonymous, kCookie, kAuthenticated};
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const Route& route = config.routes[i];
        for (const Sender& sender : kSenders) {
            const PolicySettings* const policy = policy_passed_by(route, sender);
            if (policy == nullptr || !can_come(sender, route, config)) continue;
            const bool may_require = !sender.has_user && !config.user_methods.empty();
            context.warnings.push_back(
                {declared.routes[i],
                 "the route " + quote(route.name) + ": " + std::string(sender.text) +
                     " can meet no limit at all, as the policy " + quote(policy->name) +
                     " has `on_missing: skip`: add a policy with the key `ip`" +
                     (may_require ? ", or write `identity: required`" : "")});
            break;
        }
    }
}

constexpr std::string_view kNoMethod = "no method";

// A policy that refuses every request, or counts none, as nothing names users.
void warn_about_impossible_keys(const PolicySettings& policy, const Config& config,
                                const Declared& declared, Context& context) {
    // A client of the check API names the user.
    const bool only_check = config.has_face(Face::check) && !config.has_face(Face::proxy) &&
                            !config.has_face(Face::forward_auth);
    if (only_check) return;
    std::string_view missing;
    bool refuses = false;
    std::size_t impossible = 0;
    for (const Key& key : policy.key) {
        const std::string_view one = what_is_missing_for(key, config);
        if (one.empty() || key.on_missing == limit::OnMissing::shared) continue;
        ++impossible;
        missing = one;
        refuses = refuses || key.on_missing == limit::OnMissing::reject;
    }
    const bool is_all = impossible == policy.key.size();
    if (!refuses && !is_all) return;
    context.warnings.push_back(
        {place_of(policy, config, declared),
         subject_of(policy, declared) + ": " +
             (refuses || !policy.may_skip ? "refuses every request" : "counts no request") +
             ", as identity.user lists " + std::string(missing) + ": add " +
             (missing == kNoMethod ? "a method" : "it") +
             " to identity.user, or `ip` to the policy's `key`"});
}

// Tiers that the policy names and no user can have. A tier in `tiers` may wait for its first user;
// one in `exempt` or `deny` is more likely misspelt.
void warn_about_tiers_of(const PolicySettings& policy, const Config& config,
                         const Declared& declared, Context& context) {
    std::set<std::string_view> listed(policy.exempt.tiers.begin(), policy.exempt.tiers.end());
    listed.insert(policy.deny.tiers.begin(), policy.deny.tiers.end());
    if (takes_any_tier(config) || (policy.tiers.empty() && listed.empty())) return;
    const Place place = place_of(policy, config, declared);
    const std::string subject = subject_of(policy, declared);
    if (declared.user_tiers.empty()) {
        context.warnings.push_back(
            {place, subject + ": no user has a tier: add identity.users, `tier` in the file of "
                              "`api_key`, `tier_claim` or `tier_header`"});
        return;
    }
    for (const std::string_view tier : listed) {
        if (declared.user_tiers.contains(tier)) continue;
        context.warnings.push_back(
            {place, subject + ": no user has the tier " + quote(tier) +
                        ": neither identity.users nor a file of keys names it"});
    }
}

// Warns about users in `exempt` or `deny` where nothing names users. A client of the check API
// names the user.
void warn_about_users_in(const identity::ClientList& clients, std::string_view list,
                         const PolicySettings& policy, const Config& config,
                         const Declared& declared, Context& context) {
    if (clients.users.empty() && !clients.authenticated) return;
    if (!config.user_methods.empty() || config.has_face(Face::check)) return;
    const std::string what = clients.users.empty() ? "`authenticated` in " + quote(list) + " has"
                                                   : "the users in " + quote(list) + " have";
    context.warnings.push_back({place_of(policy, config, declared),
                                subject_of(policy, declared) + ": " + what +
                                    " no effect, as identity.user lists " + std::string(kNoMethod) +
                                    ": add a method to identity.user"});
}

void warn_about_lists_of(const PolicySettings& policy, const Config& config,
                         const Declared& declared, Context& context) {
    const bool asks = policy.exempt.authenticated || policy.exempt.anonymous ||
                      policy.deny.authenticated || policy.deny.anonymous;
    const Place place = place_of(policy, config, declared);
    const std::string subject = subject_of(policy, declared);
    warn_about_users_in(policy.exempt, "exempt", policy, config, declared, context);
    warn_about_users_in(policy.deny, "deny", policy, config, declared, context);
    if (policy.exempt.authenticated && policy.exempt.anonymous) {
        context.warnings.push_back(
            {place, subject + ": `exempt` lists `authenticated` and `anonymous`: the policy counts "
                              "no request"});
    }
    if (asks && any_method(config, is_made_up)) {
        context.warnings.push_back(
            {place, subject + ": users by `cookie` are `anonymous` in `exempt` and `deny`, as "
                              "clients can make up cookies"});
    }
}

void warn_about_claimed_quotas(const PolicySettings& policy, const Config& config,
                               const Declared& declared, Context& context) {
    if (policy.claimed_quotas.empty() || any_method(config, has_claims)) return;
    context.warnings.push_back({place_of(policy, config, declared),
                                subject_of(policy, declared) + ": the claim " +
                                    quote(policy.claimed_quotas.front().name) +
                                    " states no quota, as identity.user lists no `jwt`: add it, "
                                    "or write the quota as a number"});
}

}  // namespace

std::string_view what_is_missing_for(const Key& key, const Config& config) {
    std::string_view missing;
    for (const auto& choice : key.choices) {
        std::string_view lacks;
        for (const KeyPart& part : choice) {
            if (part.kind == Kind::user && config.user_methods.empty()) lacks = kNoMethod;
            if (part.kind == Kind::claim && !any_method(config, has_claims)) lacks = "no `jwt`";
        }
        if (lacks.empty()) return {};
        missing = lacks;
    }
    return missing;
}

void warn_about_clients(const Config& config, const Declared& declared, Context& context) {
    for (const auto& policy : config.policies) {
        warn_about_claimed_quotas(*policy, config, declared, context);
        warn_about_impossible_keys(*policy, config, declared, context);
        warn_about_tiers_of(*policy, config, declared, context);
        warn_about_lists_of(*policy, config, declared, context);
    }
    warn_about_unlimited_senders(config, declared, context);
}

}  // namespace tidegate::config

// Settings that are valid but probably a mistake, and names that do not exist. Warnings about
// routes and upstreams are in warnings_routes_upstreams.cpp, about costs in warnings_costs.cpp.
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "base/utf8.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"

namespace tidegate::config {

void unknown_name(const Value& value, std::string_view kind, const std::string& name,
                  const std::map<std::string, Declared::Named, std::less<>>& known) {
    std::vector<std::string_view> names;
    names.reserve(known.size());
    for (const auto& [other, entry] : known) names.push_back(other);
    std::string message = "there is no " + std::string(kind) + " " + quote(name);
    const std::string_view meant = nearest(name, names);
    if (!meant.empty()) message += "; did you mean " + quote(meant) + "?";
    value.fault(message);
}

namespace {

// A route that counts only values which clients choose does not limit a client that varies them.
void warn_about_free_keys(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const auto& policies = config.routes[i].policies;
        const bool host_is_fixed = config.router.names_host(i);
        const auto is_chosen = [&](const PolicySettings* policy) {
            return counts_only_what_clients_choose(*policy, config, host_is_fixed);
        };
        const auto is_free = [&](const PolicySettings* policy) {
            return policy->shadow || policy->soft || is_chosen(policy);
        };
        const auto free = std::find_if(policies.begin(), policies.end(), is_chosen);
        if (free == policies.end() || !std::all_of(policies.begin(), policies.end(), is_free)) {
            continue;
        }
        context.warnings.push_back(
            {declared.routes[i],
             "the route " + quote(config.routes[i].name) +
                 " counts only by values that clients choose, with the policy " +
                 quote((*free)->name) + ": a client that varies them is never limited; count by " +
                 (clients_choose_users(config) ? "`ip` as well, as clients can make up cookies"
                                               : "`ip` or `user` as well")});
    }
}

}  // namespace

std::vector<Diagnostic> warnings_about_tiers(const Config& config, const Declared& declared) {
    std::set<std::string_view> known;
    for (const auto& policy : config.policies) {
        for (const limit::Tier& tier : policy->tiers) known.insert(tier.name);
        known.insert(policy->exempt.tiers.begin(), policy->exempt.tiers.end());
        known.insert(policy->deny.tiers.begin(), policy->deny.tiers.end());
    }
    std::vector<Diagnostic> warnings;
    for (const auto& [tier, diagnostic] : declared.user_tiers) {
        if (!known.contains(tier)) warnings.push_back(diagnostic);
    }
    return warnings;
}

// Configurations for pages of other origins that probably are a mistake.

namespace {

bool counts_users(const Route& route) {
    return std::any_of(route.policies.begin(), route.policies.end(),
                       [](const PolicySettings* policy) {
                           return limit::counts_by(policy->key, limit::KeyPart::Kind::user);
                       });
}

// Once for all routes. `response.cors` silences it, even as `off`.
void warn_about_ordinary_options(const Config& config, const Declared& declared, Context& context) {
    if (config.user_methods.empty() || declared.cors.place) return;
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
        const Route& route = config.routes[i];
        if (declared.cors.own.contains(i) || !counts_users(route)) continue;
        context.warnings.push_back(
            {declared.user_methods.front().place,
             "identity.user: the route " + quote(route.name) +
                 " counts users, and a browser's preflight (OPTIONS) carries no credentials: "
                 "without `cors` it counts like any other request without a user. Write "
                 "`response: {cors: {origins: [\"https://app.example.com\"]}}` if pages of other "
                 "origins call this API, else `response: {cors: off}`"});
        return;
    }
}

bool takes_preflights(const Declared& declared, std::size_t route) {
    return !declared.cors.without_options.contains(route);
}

// `methods` without OPTIONS: a preflight takes another route, or none.
void warn_about_missing_options(const Config& config, const Declared& declared, Context& context) {
    bool any_takes_them = false;
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
        if (takes_preflights(declared, i)) any_takes_them = true;
        const auto own = declared.cors.own.find(i);
        if (own == declared.cors.own.end() || own->second == nullptr) continue;
        if (takes_preflights(declared, i)) continue;
        context.warnings.push_back(
            {declared.cors.without_options.at(i),
             "the route " + quote(config.routes[i].name) +
                 " has `cors`, and no preflight takes it: a preflight is an OPTIONS request; add "
                 "OPTIONS to `methods`"});
    }
    if (any_takes_them || config.response.cors == nullptr) return;
    context.warnings.push_back(
        {*declared.cors.place,
         "response.cors: no route takes a preflight, which is an OPTIONS request, so browsers get "
         "404: add OPTIONS to the `methods` of the routes"});
}

void warn_about_cors(const Config& config, const Declared& declared, Context& context) {
    warn_about_ordinary_options(config, declared, context);
    warn_about_missing_options(config, declared, context);
}

}  // namespace

// Values that applications may read in another way than Tidegate counts or matches them.

Place place_of(const limit::Policy& policy, const Config& config, const Declared& declared) {
    const auto named = declared.policies.find(policy.name);
    if (named != declared.policies.end()) return named->second.place;
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        for (const PolicySettings* used : config.routes[i].policies) {
            if (used == &policy) return declared.routes[i];
        }
    }
    return {};
}

namespace {

using limit::KeyPart;

constexpr std::string_view kQueryReading =
    ": Tidegate sees the query only. If the application also takes this name from a body, a cookie "
    "or the path, clients can get past the limit: let it read the query alone";

// Once for each name, however many policies count by it.
void warn_about_query_keys(const Config& config, const Declared& declared, Context& context) {
    std::set<std::string_view> known;
    const auto warn = [&](const limit::Policy& policy, const KeyPart& part) {
        if (part.kind != KeyPart::Kind::query || !known.insert(part.name).second) return;
        context.warnings.push_back({place_of(policy, config, declared),
                                    "the policy " + quote(policy.name) + " counts by " +
                                        quote("query:" + part.name) + std::string(kQueryReading)});
    };
    for (const auto& policy : config.policies) {
        limit::for_each_part(policy->key, [&](const KeyPart& part) { warn(*policy, part); });
    }
}

void warn_about_query_moments(const Config& config, const Declared& declared, Context& context) {
    std::set<std::string_view> known;
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
        const Route& route = config.routes[i];
        if (!route.moment || route.moment->in != MomentSource::In::query) continue;
        if (!known.insert(route.moment->name).second) continue;
        context.warnings.push_back(
            {i < declared.routes.size() ? declared.routes[i] : Place{},
             "the route " + quote(route.name) + " takes the moment of its schedules from " +
                 quote("query: " + route.moment->name) + std::string(kQueryReading)});
    }
}

void warn_about_readings(const Config& config, const Declared& declared, Context& context) {
    warn_about_query_keys(config, declared, context);
    warn_about_query_moments(config, declared, context);
}

}  // namespace

// How Envoy takes the answers of `rls`.

namespace {

// Envoy waits 20 ms for its rate limit service, unless its configuration says more.
void warn_about_patience(const Config& config, const Declared& declared, Context& context) {
    constexpr milliseconds kOfEnvoy{15};
    const auto* const redis = std::get_if<RedisSettings>(&config.store);
    if (!config.rls || redis == nullptr || redis->timeout <= kOfEnvoy) return;
    context.warnings.push_back(
        {declared.rls, "rls: store.redis.timeout is " + std::to_string(redis->timeout.count()) +
                           "ms, and Envoy waits 20ms for an answer by default: write `timeout: "
                           "15ms`, or a longer `timeout` in Envoy's rate_limit_service"});
}

// Envoy lets the request of a failed call pass unless its configuration says otherwise.
void warn_about_denial(const Config& config, const Declared& declared, Context& context) {
    if (!config.rls || declared.on_store_failure != limit::OnStoreFailure::deny) return;
    context.warnings.push_back(
        {declared.rls,
         "rls: with `on_store_failure: deny` Envoy's call fails while the store is down, and Envoy "
         "lets the request pass unless its filter has `failure_mode_deny: true`"});
}

void warn_about_rls(const Config& config, const Declared& declared, Context& context) {
    warn_about_patience(config, declared, context);
    warn_about_denial(config, declared, context);
}

}  // namespace

void warn_about(const Config& config, const Declared& declared, Context& context) {
    for (const auto& [name, policy] : declared.policies) {
        if (policy.used || config.has_face(Face::check)) continue;
        context.warnings.push_back(
            {policy.place, "policies." + name + ": no route uses this policy"});
    }
    for (const auto& [name, upstream] : declared.upstreams) {
        if (upstream.used) continue;
        context.warnings.push_back(
            {upstream.place, "upstreams." + name + ": no route goes to this upstream"});
    }
    warn_about_identity(config, declared, context);
    warn_about_free_keys(config, declared, context);
    warn_about_readings(config, declared, context);
    warn_about_clients(config, declared, context);
    warn_about_routes(config, declared, context);
    warn_about_costs(config, declared, context);
    warn_about_upstreams(config, declared, context);
    warn_about_rls(config, declared, context);
    warn_about_cors(config, declared, context);
}

// Warnings about policies and routes that distinguish users, tiers and anonymous clients: some
// clients meet no limit, or no client can be what a policy names.
namespace {

using limit::Key;
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

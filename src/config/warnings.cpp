// Settings that are valid but probably a mistake, and names that do not exist. Warnings about
// routes and upstreams are in warnings_routes_upstreams.cpp, those about clients in
// warnings_users_tiers.cpp.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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
    const auto is_user = [](const limit::KeyPart& part) {
        return part.kind == limit::KeyPart::Kind::user;
    };
    const auto has_user = [&](const limit::Key& key) {
        return std::any_of(key.choices.begin(), key.choices.end(), [&](const auto& choice) {
            return std::any_of(choice.begin(), choice.end(), is_user);
        });
    };
    return std::any_of(route.policies.begin(), route.policies.end(),
                       [&](const PolicySettings* policy) {
                           return std::any_of(policy->key.begin(), policy->key.end(), has_user);
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
        for (const limit::Key& key : policy->key) {
            for (const auto& choice : key.choices) {
                for (const KeyPart& part : choice) warn(*policy, part);
            }
        }
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
    warn_about_upstreams(config, declared, context);
    warn_about_rls(config, declared, context);
    warn_about_cors(config, declared, context);
}

}  // namespace tidegate::config

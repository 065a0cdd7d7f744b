// Costs of policies that are valid but probably a mistake.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "usage/request.hpp"

namespace tidegate::config {

// Not of money: prices differ by model.
void warn_about_largest_reserve(const Value& value, const PolicyCost& cost,
                                const limit::Policy& policy,
                                const std::vector<limit::Limit>& limits, const Declared& declared) {
    if (!cost.reads_body() || cost.in_money || cost.rule >= declared.estimates.size()) return;
    const std::int64_t most =
        usage::Estimate{.of_any = declared.estimates[cost.rule].max}.cost(cost.weights);
    for (const limit::Limit& limit : limits) {
        if (limit.quota == 0 || most <= limit.most_at_once()) continue;
        value.warn("`max` reserves up to " + std::to_string(most) + " units, more than the " +
                   std::to_string(limit.most_at_once()) + " of the limit " + quote(limit.name) +
                   " in policy " + quote(policy.name) +
                   ": it refuses requests that large, however little was used. Write a smaller "
                   "`max`, or raise the quota");
        return;
    }
}

void warn_about_dear_tokens(const Value& weight, std::string_view member) {
    if (member.find("token") == member.npos || member.find("cost") != member.npos) return;
    const std::string dollars = weight.text().value_or("");
    weight.warn("one " + quote(member) + " costs " + dollars +
                (dollars == "1" ? " dollar" : " dollars") +
                ": settle by a provider, or name a member that states dollars");
}

// Costs that do not fit the route, or another policy of it.

namespace {

// The policy whose maximum Tidegate writes into requests of the route: the smallest one. Null: it
// writes none.
const PolicySettings* policy_that_writes(const Route& route) {
    const PolicySettings* found = nullptr;
    for (const PolicySettings* policy : route.policies) {
        if (policy->cost == nullptr || !policy->cost->writes_cap) continue;
        if (found == nullptr || policy->cost->cap < found->cost->cap) found = policy;
    }
    return found;
}

// A policy estimates the body as the client sent it, and the upstream gets the maximum.
void warn_about_caps(const Config& config, const Declared& declared, Context& context) {
    std::set<std::pair<const PolicySettings*, const PolicySettings*>> known;
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const PolicySettings* const writing = policy_that_writes(config.routes[i]);
        if (writing == nullptr) continue;
        const std::int64_t cap = writing->cost->cap;
        for (const PolicySettings* policy : config.routes[i].policies) {
            const PolicyCost* const cost = policy->cost.get();
            if (cost == nullptr || cost->rule >= declared.estimates.size()) continue;
            if (!cost->needs_price() && cost->weights.output == 0) continue;
            const std::int64_t reserved = declared.estimates[cost->rule].fallback;
            if (reserved >= cap || !known.emplace(writing, policy).second) continue;
            context.warnings.push_back(
                {place_of(*policy, config, declared),
                 "the policy " + quote(writing->name) + " writes a maximum of " +
                     std::to_string(cap) + " into requests, and " + quote(policy->name) +
                     " on the same route reserves " + std::to_string(reserved) +
                     " for them: give both the same `default`"});
        }
    }
}

bool has_no_body(std::string_view method) {
    return method == "GET" || method == "HEAD" || method == "DELETE" || method == "OPTIONS";
}

// Whether the path of some request of the route names its model. In doubt it says yes.
bool may_name_model(std::string_view path) {
    const bool is_literal = path.starts_with('/') && path.find_first_of("*{") == path.npos;
    if (is_literal) return !usage::model_of_path(path).empty();
    return path.find("model") != path.npos || path.find("deployments") != path.npos;
}

// Whether a request without a body lacks a key of the policy, which refuses it then.
bool needs_body_for_key(const PolicySettings& policy) {
    return std::any_of(policy.key.begin(), policy.key.end(), [](const limit::Key& key) {
        return key.on_missing == limit::OnMissing::reject &&
               std::all_of(key.choices.begin(), key.choices.end(), [](const auto& choice) {
                   return std::any_of(choice.begin(), choice.end(),
                                      [](const limit::KeyPart& part) { return part.reads_body(); });
               });
    });
}

// Why the policy refuses requests without a body, and what to write; empty: it does not.
std::string why_refused(const PolicySettings& policy, const Route& route) {
    const std::string name = quote(policy.name);
    const std::string take_off =
        ": it refuses requests without one (400). Take " + name + " off the route, ";
    if (policy.shadow) return {};
    if (needs_body_for_key(policy)) {
        return name + " counts by the body" + take_off + "or write `on_missing: skip`";
    }
    if (policy.cost == nullptr || !policy.cost->needs_price() || may_name_model(route.path)) {
        return {};
    }
    return name + " needs the request's model" + take_off +
           "or write a fixed `reserve` without `settle`";
}

std::string shown_methods(const std::vector<std::string>& methods) {
    std::string text = methods.front();
    for (std::size_t i = 1; i < methods.size(); ++i) {
        text.append(i + 1 == methods.size() ? " and " : ", ").append(methods[i]);
    }
    return text +
           (methods.size() == 1 ? ", which rarely has a body" : ", which rarely have a body");
}

// Routes whose requests a policy refuses, as none of them has a body.
void warn_about_missing_bodies(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < declared.routes.size(); ++i) {
        const Route& route = config.routes[i];
        const std::vector<std::string>& methods = config.router.methods(i);
        if (methods.empty() || !std::all_of(methods.begin(), methods.end(), has_no_body)) continue;
        for (const PolicySettings* policy : route.policies) {
            const std::string why = why_refused(*policy, route);
            if (why.empty()) continue;
            context.warnings.push_back({declared.routes[i], "the route " + quote(route.name) +
                                                                " takes " + shown_methods(methods) +
                                                                ", and the policy " + why});
        }
    }
}

}  // namespace

void warn_about_costs(const Config& config, const Declared& declared, Context& context) {
    warn_about_caps(config, declared, context);
    warn_about_missing_bodies(config, declared, context);
}

}  // namespace tidegate::config

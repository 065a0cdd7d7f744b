// Settings that are valid but probably a mistake, and names that do not exist.
#include <algorithm>
#include <set>

#include "base/quote.hpp"
#include "config/read_sections.hpp"
#include "config/suggest.hpp"

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
        const auto is_chosen = [&](const Policy* policy) {
            return counts_only_what_clients_choose(*policy, config, host_is_fixed);
        };
        const auto is_free = [&](const Policy* policy) {
            return policy->shadow || is_chosen(policy);
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
    warn_about_faces(config, declared, context);
    warn_about_cors(config, declared, context);
}

}  // namespace tidegate::config

// What routes and policies need of users and their credentials, and where requests have these.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/read_sections.hpp"

namespace tidegate::config {

void read_route_identity(const Value& value, const Config& config, Route& route) {
    const auto chosen = value.choice<bool>({{"required", true}, {"optional", false}});
    route.needs_user = chosen.value_or(route.needs_user);
    route.states_identity = true;
    const Context& context = value.context();
    const bool reads_well = context.faults.empty() && context.other_errors.empty();
    if (chosen == true && config.user_methods.empty() && reads_well) {
        value.fault(
            "no request has a user, as identity.user lists no method: add one, or remove "
            "this key");
    }
}

void tell_methods_what_counts(Config& config) {
    std::set<std::string_view> tiers;
    for (const auto& policy : config.policies) {
        for (const limit::Tier& tier : policy->tiers) tiers.insert(tier.name);
        tiers.insert(policy->exempt.tiers.begin(), policy->exempt.tiers.end());
        tiers.insert(policy->deny.tiers.begin(), policy->deny.tiers.end());
    }
    for (identity::UserMethod& method : config.user_methods) {
        auto* const jwt = std::get_if<identity::JwtMethod>(&method.how);
        if (jwt == nullptr) continue;
        jwt->claims = config.claims;
        jwt->known_tiers.assign(tiers.begin(), tiers.end());
    }
}

void list_credential_fields(Config& config) {
    std::vector<std::string>& fields = config.credential_fields;
    for (const identity::UserMethod& method : config.user_methods) {
        if (const auto* jwt = std::get_if<identity::JwtMethod>(&method.how)) {
            if (jwt->cookie.empty()) fields.push_back(jwt->field);
        } else if (const auto* key = std::get_if<identity::ApiKeyMethod>(&method.how)) {
            fields.push_back(key->field);
        } else if (const auto* header = std::get_if<identity::HeaderMethod>(&method.how)) {
            fields.push_back(header->field);
        }
    }
    for (const auto& policy : config.policies) {
        for (const limit::Key& key : policy->key) {
            for (const auto& choice : key.choices) {
                for (const limit::KeyPart& part : choice) {
                    const bool is_field = part.kind == limit::KeyPart::Kind::header;
                    if (is_field && part.secret) fields.push_back(part.name);
                }
            }
        }
    }
    std::sort(fields.begin(), fields.end());
    fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
}

}  // namespace tidegate::config

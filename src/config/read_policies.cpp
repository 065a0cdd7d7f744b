// `policies` and `default_policies`.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/quote.hpp"
#include "config/sections.hpp"

namespace tidegate::config {

namespace {

using limit::Key;

constexpr std::size_t kPoliciesMax = 10'000;

std::vector<Key> read_key(const Value& value) {
    std::vector<Key> keys;
    const auto parts = value.one_or_more("a list of keys: `[ip, user]`");
    if (value.is_sequence() && parts.empty()) value.fault("a policy needs a key: `[ip, user]`");
    for (const Value& part : parts) {
        const auto text = part.text("`ip` or `user`");
        if (!text) continue;
        const bool combined = text->find_first_of("+|") != std::string::npos;
        const bool other = text->starts_with("header:") || text->starts_with("query:") ||
                           text->starts_with("path:") || text->starts_with("cookie:") ||
                           *text == "route" || *text == "method" || *text == "host";
        if (combined || other) {
            part.not_available();
            continue;
        }
        const auto key = part.choice<Key>({{"ip", Key::ip}, {"user", Key::user}});
        if (!key) continue;
        if (std::find(keys.begin(), keys.end(), *key) != keys.end()) {
            part.fault(quote(*text) + " is there already");
            continue;
        }
        keys.push_back(*key);
    }
    return keys;
}

}  // namespace

void add_policy(const std::string& name, std::vector<Key> key, std::vector<limit::Limit> limits,
                limit::OnStoreFailure on_store_failure, Config& config) {
    auto policy = std::make_unique<limit::Policy>();
    policy->name = name;
    policy->key = std::move(key);
    policy->limits = std::move(limits);
    policy->on_store_failure = on_store_failure;
    policy->index = static_cast<std::uint32_t>(config.policies.size());
    config.policies.push_back(std::move(policy));
}

std::optional<std::size_t> read_policy(const Value& value, const std::string& name, Config& config,
                                       const Declared& declared) {
    const std::size_t faults_before = value.context().faults.size();
    std::vector<Key> keys;
    std::vector<limit::Limit> limits;
    limit::OnStoreFailure on_store_failure = declared.on_store_failure;

    Section section(value, "a map: `{key: [ip, user], limits: [10/s]}`");
    if (const auto key = section.need("key", "`key: [ip, user]`")) keys = read_key(*key);
    if (const auto list = section.need("limits", "`limits: [10/s]`")) limits = read_limits(*list);
    if (const auto failure = section.find("on_store_failure")) {
        on_store_failure = read_on_store_failure(*failure).value_or(on_store_failure);
    }
    if (const auto mode = section.find("mode")) {
        mode->choice<bool>({{"enforce", true}}, {"shadow"});
    }
    section.not_available({"tiers", "exempt", "deny", "on_missing"});
    section.refuse_others();

    if (!value.is_map() || value.context().faults.size() != faults_before) return std::nullopt;
    add_policy(name, std::move(keys), std::move(limits), on_store_failure, config);
    return config.policies.size() - 1;
}

void read_policies(const Value& value, Config& config, Declared& declared) {
    const auto named = value.named("a map of policies: `per-client: {key: [ip], limits: [10/s]}`");
    if (named.size() > kPoliciesMax) {
        value.fault("more than " + std::to_string(kPoliciesMax) + " policies");
        return;
    }
    for (const auto& [name, policy] : named) {
        Declared::Named& entry = declared.policies[name];
        entry.place = policy.place();
        entry.position = read_policy(policy, name, config, declared);
    }
}

void read_default_policies(const Value& value, Declared& declared) {
    for (const Value& item : value.one_or_more("a list of names of policies")) {
        const auto name = item.identifier();
        if (!name) continue;
        const auto found = declared.policies.find(*name);
        if (found == declared.policies.end()) {
            unknown_name(item, "policy", *name, declared.policies);
            continue;
        }
        auto& names = declared.default_policies;
        if (std::find(names.begin(), names.end(), *name) != names.end()) {
            item.fault("the policy " + quote(*name) + " is there already");
            continue;
        }
        found->second.used = true;
        names.push_back(*name);
    }
}

}  // namespace tidegate::config

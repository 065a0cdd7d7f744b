// `policies` and `default_policies`.
#include <memory>
#include <utility>

#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kPoliciesMax = 10'000;

void read_tiers(const Value& value, Policy& policy) {
    constexpr ListRule kTiers{
        "a map of tiers and their limits: `{pro: [200/s], internal: unlimited}`", "tiers", 64};
    for (const auto& [name, list] : value.named(kTiers)) {
        limit::Tier tier;
        tier.name = name;
        if (!list.is("unlimited")) {
            Limits limits = read_limits(list);
            agree_on_moment(list, limits.moment, policy.moment);
            tier.limits = std::move(limits.limits);
        }
        policy.tiers.push_back(std::move(tier));
    }
}

std::optional<limit::OnMissing> read_on_missing(Section& section) {
    using limit::OnMissing;
    const auto value = section.find("on_missing");
    if (!value) return std::nullopt;
    return value->choice<OnMissing>(
        {{"skip", OnMissing::skip}, {"shared", OnMissing::shared}, {"reject", OnMissing::reject}});
}

void read_who_and_what(Section& section, Config& config, Policy& policy) {
    const auto key = section.need("key");
    if (const auto list = section.need("limits")) {
        Limits limits = read_limits(*list);
        policy.limits = std::move(limits.limits);
        policy.moment = std::move(limits.moment);
    }
    if (const auto tiers = section.find("tiers")) read_tiers(*tiers, policy);
    if (const auto exempt = section.find("exempt")) read_client_list(*exempt, policy.exempt);
    const auto deny = section.find("deny");
    if (deny) read_client_list(*deny, policy.deny);
    const auto on_missing = read_on_missing(section);
    policy.may_skip = on_missing == limit::OnMissing::skip;
    if (key) policy.key = read_key(*key, on_missing, config);
    section.choice<bool>("mode", policy.shadow, {{"enforce", false}, {"shadow", true}});
    if (deny && policy.shadow)
        deny->warn("has no effect: a policy with `mode: shadow` refuses no request");
}

// The answer of this policy to a refused request, in place of `response`.
void read_refusal(Section& section, Policy& policy) {
    const auto status = section.find("status");
    if (status) policy.status = static_cast<int>(status->integer({400, 599}).value_or(0));
    const auto body = section.find("body");
    if (body) policy.body = read_answer_body(*body);
    if (!policy.shadow) return;
    for (const auto& unused : {status, body}) {
        if (unused) unused->warn("has no effect: a policy with `mode: shadow` refuses no request");
    }
}

}  // namespace

const Rows& policy_keys() {
    static const auto keys =
        Rows("a map: `{key: [ip, user], limits: [10/s]}`", "policy")
            .key("key", kind::one_or_more(kind::type("key"), {1, 16}),
                 {"what is counted, each for itself: [keys](#keys-of-policies)", "required",
                  "1 to 16; 31 of all policies of a route"})
            .required("`key: [ip, user]`")
            .key("limits", limits_kind(), {"the [limits](#limits)", "required", "1 to 32"})
            .required("`limits: [10/s]`")
            .key("tiers",
                 kind::named(
                     kind::any({kind::fixed({"unlimited"}), limits_kind(), kind::type("variable")}),
                     {0, 64}),
                 {"`{pro: [200/s], internal: unlimited}`: in place of `limits` for users of that "
                  "tier",
                  "none", "at most 64"})
            .key(
                "exempt", kind::one_or_more(kind::type("client"), {0, 10'000}),
                {"clients that this policy does not count: [members](#exemptions-tiers-and-shadow)",
                 "none"})
            .key("deny", kind::one_or_more(kind::type("client"), {0, 10'000}),
                 {"clients that it refuses with 403", "none"})
            .key("on_missing", kind::word({"skip", "shared", "reject"}),
                 {"what becomes of a request that has no value for a key: `skip`, `shared` or "
                  "`reject`",
                  "[by key](#when-a-key-has-no-value)"})
            .key("mode", kind::word({"enforce", "shadow"}),
                 {"`enforce`, or `shadow`: decide, count and log, never refuse", "`enforce`"})
            .key("on_store_failure", kind::type("on_store_failure"),
                 {"`local`, `allow` or `deny`", "the global one"})
            .key("status", kind::integer({400, 599}),
                 {"of its refusals; where several policies refuse, the first of the route decides",
                  "that of `response`", "400 to 599"})
            .key("body", answer_body_kind(),
                 {"of its refusals; where several policies refuse, the first of the route decides",
                  "that of `response`", "64 KiB"});
    return keys;
}

std::size_t add_policy(Policy&& policy, Config& config) {
    std::uint32_t next = 0;
    if (!config.policies.empty()) {
        const Policy& last = *config.policies.back();
        next = last.index + static_cast<std::uint32_t>(last.tiers.size()) + 1;
    }
    policy.index = next++;
    for (limit::Tier& tier : policy.tiers) tier.index = next++;
    config.policies.push_back(std::make_unique<const Policy>(std::move(policy)));
    return config.policies.size() - 1;
}

std::optional<std::size_t> read_policy(const Value& value, const std::string& name, Config& config,
                                       const Declared& declared) {
    const std::size_t faults_before = value.context().faults.size();
    Policy policy;
    policy.name = name;
    policy.on_store_failure = declared.on_store_failure;

    Section section(value, policy_keys());
    read_who_and_what(section, config, policy);
    if (const auto failure = section.find("on_store_failure")) {
        policy.on_store_failure = read_on_store_failure(*failure).value_or(policy.on_store_failure);
    }
    read_refusal(section, policy);
    section.refuse_others();

    if (!value.is_map() || value.context().faults.size() != faults_before) return std::nullopt;
    return add_policy(std::move(policy), config);
}

void read_policies(const Value& value, Config& config, Declared& declared) {
    constexpr ListRule kPolicies{"a map of policies: `per-client: {key: [ip], limits: [10/s]}`",
                                 "policies", kPoliciesMax};
    for (const auto& [name, policy] : value.named(kPolicies)) {
        Declared::Named& entry = declared.policies[name];
        entry.place = policy.place();
        if (name == kFailedCredentials) {
            policy.fault("identity.failed_credentials has this name: choose another");
            continue;
        }
        if (name == kPreflight) {
            policy.fault("the limit of preflights (`response.cors`) has this name: choose another");
            continue;
        }
        entry.position = read_policy(policy, name, config, declared);
    }
}

std::vector<std::string> read_default_policies(const Value& value, Declared& declared) {
    constexpr ListRule kNames{"a list of names of policies", "policies", kPoliciesMax};
    std::vector<std::string> names;
    for (const Value& item : value.one_or_more(kNames)) {
        const auto name = item.identifier();
        if (!name) continue;
        const auto found = declared.policies.find(*name);
        if (found == declared.policies.end()) {
            unknown_name(item, "policy", *name, declared.policies);
            continue;
        }
        add_once(item, "the policy " + quote(*name), *name, names);
    }
    return names;
}

}  // namespace tidegate::config

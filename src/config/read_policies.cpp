// `policies` and `default_policies`: lists of clients, and what a policy says of them. Its key is
// read in read_policy_key.cpp, its limits in read_limits.cpp, its cost in read_costs.cpp.
#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "identity/identifier.hpp"

namespace tidegate::config {

// `exempt` and `deny` of a policy: networks, users, tiers, `authenticated` and `anonymous`.

namespace {

constexpr std::string_view kUser = "user:";
constexpr std::string_view kTier = "tier:";
constexpr std::string_view kWantedClient =
    "a network such as `10.0.0.0/8`, `user:NAME`, `tier:NAME`, `authenticated` or `anonymous`";

bool is_pattern(std::string_view name) {
    return name.find_first_of("*?") != name.npos || name.starts_with("regex:");
}

// What to write instead of a pattern: names are compared whole. Empty: `text` is no pattern.
std::string advice_about_pattern(std::string_view text) {
    if (text == "user:*") return "for every user with a checked credential, write `authenticated`";
    if (text.starts_with(kUser) && is_pattern(text.substr(kUser.size()))) {
        return "users are compared by their whole name: list each as `user:NAME`, or give them a "
               "tier and write `tier:NAME`";
    }
    if (text.starts_with(kTier) && is_pattern(text.substr(kTier.size()))) {
        return "tiers are compared by their whole name: list each as `tier:NAME`";
    }
    if (text == "*" || text == "all" || text == "any") {
        return "for every client, write `authenticated` and `anonymous`; for every address, "
               "`0.0.0.0/0` and `::/0`";
    }
    if (text.find('*') != text.npos) return "write an address range as a network: `10.0.0.0/8`";
    return {};
}

// The words that people try for `authenticated` and `anonymous`; empty: none of these.
std::string_view word_meant(std::string_view text) {
    if (text == "user" || text == "users" || text == "authorized") return "authenticated";
    if (text == "anon" || text == "guest" || text == "unauthenticated") return "anonymous";
    return {};
}

class ClientListReader {
  public:
    explicit ClientListReader(identity::ClientList& list) : list_(list) {}

    void read(const Value& item, const std::string& text) {
        const std::string advice = advice_about_pattern(text);
        if (!advice.empty()) return item.fault(quote(text) + " is a pattern: " + advice);
        if (text == "authenticated") return add_word(item, text, list_.authenticated);
        if (text == "anonymous") return add_word(item, text, list_.anonymous);
        if (text.size() > kUser.size() && text.starts_with(kUser)) return add_user(item, text);
        if (text.size() > kTier.size() && text.starts_with(kTier)) return add_tier(item, text);
        if (const auto network = parse_network(text)) {
            networks_.push_back(*network);
            return;
        }
        const std::string right = advice_about_network(text);
        if (!right.empty()) return item.fault(quote(text) + " is not a network: " + right);
        std::string fault = quote(text) + " is not " + std::string(kWantedClient);
        const std::string_view meant = word_meant(text);
        if (!meant.empty()) fault += "; did you mean " + quote(meant) + "?";
        item.fault(fault);
    }

    void finish() {
        list_.networks = IpNetworks(std::move(networks_));
        std::sort(list_.users.begin(), list_.users.end());
        std::sort(list_.tiers.begin(), list_.tiers.end());
        list_.by_user =
            list_.authenticated || list_.anonymous || !list_.users.empty() || !list_.tiers.empty();
    }

  private:
    static void add_word(const Value& item, const std::string& text, bool& is_listed) {
        if (is_listed) return item.fault(quote(text) + " is listed twice");
        is_listed = true;
    }

    void add_user(const Value& item, const std::string& text) {
        std::string name = text.substr(kUser.size());
        if (!identity::is_plain_name(name)) {
            return item.fault(quote(text) + " is not a user: " + std::string(kPlainNames));
        }
        list_.users.push_back(std::move(name));
    }

    void add_tier(const Value& item, const std::string& text) {
        std::string name = text.substr(kTier.size());
        if (!identity::is_tier_name(name)) {
            return item.fault(quote(text) +
                              " is not a tier: names of tiers are letters, digits, `-`, `_` and "
                              "`.`, at most 64");
        }
        list_.tiers.push_back(std::move(name));
    }

    identity::ClientList& list_;
    std::vector<IpNetwork> networks_;
};

// `exempt` and `deny` of a policy.
void read_client_list(const Value& value, identity::ClientList& list) {
    constexpr ListRule kMembers{"a list of networks, users and tiers: `[10.0.0.0/8]`",
                                "networks, users and tiers", 10'000};
    ClientListReader reader(list);
    for (const Value& item : value.one_or_more(kMembers)) {
        if (const auto text = item.text(kWantedClient)) reader.read(item, *text);
    }
    reader.finish();
}

}  // namespace

// `policies` and `default_policies`.

namespace {

constexpr std::size_t kPoliciesMax = 10'000;

// How many limits a policy has, tiers included, and how many of these count dollars.
struct Units {
    std::size_t limits = 0;
    std::size_t in_money = 0;

    void add(const Limits& list) {
        limits += list.limits.size();
        in_money += list.in_money;
    }
};

// `list`: 0 of the policy itself, else the position of the tier, from 1.
void add_claimed(const Value& value, std::size_t list, std::vector<ClaimedQuota>&& claimed,
                 PolicySettings& policy, Config& config) {
    for (ClaimedQuota& one : claimed) {
        const auto position = position_of_claim(value, one.name, config);
        if (!position) return;
        one.claim = *position;
        one.list = list;
        policy.claimed_quotas.push_back(std::move(one));
    }
    if (policy.claimed_quotas.empty()) return;
    if (config.claimed_tiers == nullptr) config.claimed_tiers = std::make_shared<ClaimedTiers>();
}

void read_tiers(const Value& value, PolicySettings& policy, Units& units, Config& config) {
    constexpr ListRule kTiers{
        "a map of tiers and their limits: `{pro: [200/s], internal: unlimited}`", "tiers", 64};
    for (const auto& [name, list] : value.named(kTiers)) {
        limit::Tier tier;
        tier.name = name;
        if (!list.is("unlimited")) {
            Limits limits = read_limits(list);
            agree_on_moment(list, limits.moment, policy.moment);
            units.add(limits);
            tier.limits = std::move(limits.limits);
            add_claimed(list, policy.tiers.size() + 1, std::move(limits.claimed), policy, config);
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

// What a policy does with a request that is over a limit.
enum class Mode : std::uint8_t { enforce, shadow, soft };

// Slots, places in a line and booked moments are given or not: none is counted above a limit.
void check_soft(const Value& mode, const PolicySettings& policy) {
    const auto* const wrong = limit::find_limit(policy, [](const limit::Limit& limit) {
        const auto& traits = limit.traits();
        return traits.has_slots || traits.queues || traits.has_moments;
    });
    if (wrong == nullptr) return;
    mode.fault("`mode: soft` counts what is over a limit, which " + quote(wrong->traits().name) +
               " cannot: write `sliding_window`, `fixed_window`, `sliding_log` or `gcra`, or "
               "`mode: shadow`");
}

void read_mode(Section& section, PolicySettings& policy) {
    Mode mode = Mode::enforce;
    section.choice<Mode>(
        "mode", mode, {{"enforce", Mode::enforce}, {"shadow", Mode::shadow}, {"soft", Mode::soft}});
    policy.shadow = mode == Mode::shadow;
    policy.soft = mode == Mode::soft;
    if (policy.soft) check_soft(*section.find("mode"), policy);
}

// Warns of what only refusals have, in a policy that refuses no request.
void warn_if_never_refuses(const std::optional<Value>& value, const PolicySettings& policy) {
    if (!value || (!policy.shadow && !policy.soft)) return;
    value->warn(std::string("has no effect: a policy with `mode: ") +
                (policy.soft ? "soft" : "shadow") + "` refuses no request");
}

// One amount of 5 must not mean dollars here and millionths of a dollar there.
void check_units(const Value& limits, const Units& units, const PolicySettings& policy) {
    const bool in_money = policy.cost != nullptr && policy.cost->in_money;
    if (!in_money && units.in_money > 0) {
        limits.fault(
            "a limit with `unit: usd` needs a policy that counts dollars: add `cost: {unit: usd}`");
    } else if (in_money && units.in_money < units.limits) {
        limits.fault(
            "this policy counts dollars: write each of its limits, and of its tiers, as a map with "
            "`unit: usd`, such as `{quota: 5, unit: usd, per: 1h}`");
    }
}

void read_cost(Section& section, const std::optional<Value>& limits, const Units& units,
               PolicySettings& policy, Declared& declared) {
    if (const auto cost = section.find("cost")) {
        const bool in_money = units.in_money > 0 && units.in_money == units.limits;
        policy.cost = read_policy_cost(*cost, policy, in_money, declared);
        if (policy.cost == nullptr) return;
    }
    if (limits) check_units(*limits, units, policy);
}

void read_own_limits(const Value& list, PolicySettings& policy, Units& units, Config& config) {
    Limits limits = read_limits(list);
    units.add(limits);
    policy.limits = std::move(limits.limits);
    policy.moment = std::move(limits.moment);
    add_claimed(list, 0, std::move(limits.claimed), policy, config);
}

// `lease`: how much of a quota threads may take at once, and admit without asking Redis.

constexpr std::int64_t kSlackAuto = 10'000;  // millionths

// `1%` or `0.05%`, as millionths. Without the sign it is a fault: `0.5` could mean 50% or 0.5%.
std::optional<std::int64_t> read_slack(const Value& value) {
    constexpr int kDecimals = 4;
    const auto text = value.text("a share of each quota such as `1%`");
    if (!text) return std::nullopt;
    std::string_view number = *text;
    std::optional<std::int64_t> slack;
    if (number.ends_with('%')) {
        number.remove_suffix(1);
        slack = parse_fixed(number, kDecimals);
    }
    if (slack && *slack >= 1 && *slack <= 1'000'000) return slack;
    value.fault(
        quote(*text) +
        " is not a share of the quota: write more than 0% and at most 100%, with at most four "
        "decimals, such as `1%`");
    return std::nullopt;
}

// The limit of which none of so many threads may have a batch of 2 units.
const limit::Limit* find_too_small(const std::vector<limit::Limit>& limits, std::int64_t slack,
                                   std::int64_t threads) {
    constexpr std::int64_t kTwoUnits = 2'000'000;  // in millionths
    const std::int64_t too_small = (kTwoUnits * threads - 1) / slack;
    const auto found = std::find_if(limits.begin(), limits.end(), [&](const limit::Limit& limit) {
        return limit.quota <= too_small;
    });
    return found != limits.end() ? &*found : nullptr;
}

void append_percent(std::int64_t millionths, std::string& out) {
    std::array<char, 32> digits{};
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(),
                      static_cast<double>(millionths) / 10'000, std::chars_format::fixed);
    out.append(digits.data(), end.ptr).push_back('%');
}

void warn_if_too_small(const Value& value, const PolicySettings& policy, std::int64_t threads) {
    const auto warn = [&](std::string_view of_what, const limit::Limit& limit) {
        std::string text("has no effect");
        text.append(of_what).append(": ");
        append_percent(policy.lease_slack, text);
        text.append(" of the quota of ").append(quote(limit.name)).append(" is less than 2 units");
        if (threads > 1) {
            text += " for each of " + std::to_string(threads) + " threads (`replicas` x `threads`)";
        }
        value.warn(text + "; write a larger `slack`");
    };
    const auto find = [&](const std::vector<limit::Limit>& limits) {
        return find_too_small(limits, policy.lease_slack, threads);
    };
    if (const auto* const limit = find(policy.limits)) {
        warn(policy.tiers.empty() ? "" : " without a tier", *limit);
    }
    for (const limit::Tier& tier : policy.tiers) {
        const auto* const limit = find(tier.limits);
        if (limit != nullptr) warn(" in the tier " + quote(tier.name), *limit);
    }
}

// What a policy may not have beside leases. Empty: nothing of it.
std::string what_excludes_leases(Section& section, const PolicySettings& policy) {
    for (const char* const key : {"candidate", "enforce"}) {
        if (!section.find(key)) continue;
        return "leases are of limits that hold for all, and this policy has " + quote(key) +
               ": remove one of the two";
    }
    if (policy.cost != nullptr) {
        return "leases are of costs that are known before the request, and this policy has `cost`: "
               "remove one of the two";
    }
    if (!policy.is_enforced()) {
        return "leases are of policies that refuse requests: remove `lease`, or `mode: " +
               std::string(policy.soft ? "soft" : "shadow") + "`";
    }
    const auto* const wrong =
        limit::find_limit(policy, [](const limit::Limit& limit) { return !limit.can_be_leased(); });
    if (wrong != nullptr && wrong->count != limit::Count::admitted) {
        return "leases are of limits that count admitted requests, and the limit " +
               quote(wrong->name) + " has `count`: remove one of the two";
    }
    if (wrong != nullptr) {
        return "leases are of `sliding_window` and `fixed_window`, and the limit " +
               quote(wrong->name) + " is of " + quote(wrong->traits().name) +
               ": remove `lease`, or give that limit a policy of its own";
    }
    if (!policy.claimed_quotas.empty()) {
        return "leases are of quotas that the configuration has, and the claim " +
               quote(policy.claimed_quotas.front().name) +
               " states one: remove `lease`, or write the quota";
    }
    return {};
}

const Rows& lease_keys() {
    static const auto keys =
        Rows("`auto`, or a map: `{slack: 1%}`")
            .key(
                "slack",
                kind::written(
                    R"({"type":"string","pattern":"^(100([.]0{1,4})?|[1-9][0-9]?([.][0-9]{1,4})?|)"
                    R"(0[.]([1-9][0-9]{0,3}|0[1-9][0-9]{0,2}|00[1-9][0-9]?|000[1-9]))%$|\\$\\{"})"),
                {"the share of each quota that all threads of all proxies together may hold",
                 "`1%`", "above `0%`, at most `100%`; four decimals"});
    return keys;
}

// False: it is not `auto`, which is a fault.
bool read_lease_word(const Value& value) {
    if (value.is("auto")) return true;
    if (value.is_scalar()) {
        const auto text = value.text();
        if (!text) return false;
        if (text->ends_with('%')) {
            value.fault("write `lease: {slack: " + *text + "}`");
            return false;
        }
    }
    value.wrong_kind("`auto`, `off` or a map: `{slack: 1%}`");
    return false;
}

void read_lease(Section& section, const Config& config, PolicySettings& policy) {
    const auto value = section.find("lease");
    if (!value || value->is_off()) return;
    policy.lease_slack = kSlackAuto;
    if (!value->is_map()) {
        if (!read_lease_word(*value)) return;
    } else {
        Section lease(*value, lease_keys());
        if (const auto slack = lease.find("slack")) {
            const auto share = read_slack(*slack);
            if (!share) return;
            policy.lease_slack = *share;
        }
        lease.refuse_others();
    }
    const std::string why = what_excludes_leases(section, policy);
    if (!why.empty()) return value->fault(why);
    // Where the configuration does not say how many there are, one.
    const std::int64_t threads = std::max<std::int64_t>(1, config.threads);
    warn_if_too_small(*value, policy, config.replicas.value_or(1) * threads);
}

void read_who_and_what(Section& section, Config& config, PolicySettings& policy,
                       Declared& declared) {
    const auto key = section.need("key");
    const auto list = section.need("limits");
    Units units;
    if (list) read_own_limits(*list, policy, units, config);
    if (const auto tiers = section.find("tiers")) read_tiers(*tiers, policy, units, config);
    read_cost(section, list, units, policy, declared);
    if (const auto exempt = section.find("exempt")) read_client_list(*exempt, policy.exempt);
    const auto deny = section.find("deny");
    if (deny) read_client_list(*deny, policy.deny);
    const auto on_missing = read_on_missing(section);
    policy.may_skip = on_missing == limit::OnMissing::skip;
    if (key) policy.key = read_key(*key, on_missing, config);
    read_mode(section, policy);
    read_lease(section, config, policy);
    warn_if_never_refuses(deny, policy);
}

// The answer of this policy to a refused request, in place of `response`.
void read_refusal(Section& section, PolicySettings& policy) {
    const auto status = section.find("status");
    if (status) policy.status = static_cast<int>(status->integer({400, 599}).value_or(0));
    const auto body = section.find("body");
    if (body) policy.body = read_answer_body(*body);
    warn_if_never_refuses(status, policy);
    warn_if_never_refuses(body, policy);
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
            .key("tiers", tiers_kind(),
                 {"`{pro: [200/s], internal: unlimited}`: in place of `limits` for users of that "
                  "tier",
                  "none", "at most 64"})
            .key("exempt", kind::one_or_more(kind::type("client"), {0, 10'000}),
                 {"clients that this policy does not count: "
                  "[members](#exemptions-tiers-and-shadow)",
                  "none"})
            .key("deny", kind::one_or_more(kind::type("client"), {0, 10'000}),
                 {"clients that it refuses with 403", "none"})
            .key("on_missing", kind::word({"skip", "shared", "reject"}),
                 {"what becomes of a request that has no value for a key: `skip`, `shared` or "
                  "`reject`",
                  "[by key](#when-a-key-has-no-value)"})
            .key("cost", kind::map(policy_cost_keys()),
                 {"what a request takes of this policy's limits, in place of the route's cost: "
                  "[costs that are known afterwards](#costs-that-are-known-afterwards)",
                  "the route's"})
            .key("mode", kind::word({"enforce", "shadow", "soft"}),
                 {"`enforce`; `shadow`: decide, count and log, never refuse; or `soft`: [count "
                  "what is over as well, and tell the "
                  "upstream](#soft-policies)",
                  "`enforce`"})
            .key("enforce", kind::written(enforce_schema()),
                 {"the share of the identifiers that it refuses, the others in shadow: [step by "
                  "step](limits.md#enforcing-step-by-step)",
                  "`100%`", "above `0%`, at most `100%`; not beside `shadow` and `soft`"})
            .key("candidate", kind::map(candidate_keys()),
                 {"limits that are tried out beside these: "
                  "[candidates](limits.md#candidates)",
                  "none", "not beside `shadow` and `soft`"})
            .key("lease", kind::off_or(kind::any({kind::word({"auto"}), kind::map(lease_keys())})),
                 {"for keys that very many requests share: a thread takes units of "
                  "`sliding_window` and `fixed_window` limits from Redis in advance, and admits "
                  "from them without asking: [leases](limits.md#leases)",
                  "`off`"})
            .idle_unless(
                [](const Config& config) {
                    return std::holds_alternative<RedisSettings>(config.store);
                },
                "`store: memory` asks no other process")
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

KeyKind tiers_kind() {
    return kind::named(
        kind::any({kind::fixed({"unlimited"}), limits_kind(), kind::type("variable")}), {0, 64});
}

void read_own_limits(const Value& list, PolicySettings& policy, Config& config) {
    Units units;
    read_own_limits(list, policy, units, config);
    check_units(list, units, policy);
}

void read_tiers(const Value& value, PolicySettings& policy, Config& config) {
    Units units;
    read_tiers(value, policy, units, config);
    check_units(value, units, policy);
}

PolicySettings& append_policy(PolicySettings&& policy, Config& config) {
    std::uint32_t next = 0;
    if (!config.policies.empty()) {
        const PolicySettings& last = *config.policies.back();
        next = last.index + static_cast<std::uint32_t>(last.tiers.size()) + 1;
    }
    policy.index = next++;
    for (limit::Tier& tier : policy.tiers) tier.index = next++;
    auto made = std::make_unique<PolicySettings>(std::move(policy));
    PolicySettings& added = *made;
    config.policies.push_back(std::move(made));
    return added;
}

std::size_t add_policy(PolicySettings&& policy, Config& config) {
    append_policy(std::move(policy), config);
    return config.policies.size() - 1;
}

std::optional<std::size_t> read_policy(const Value& value, const std::string& name, Config& config,
                                       Declared& declared) {
    const std::size_t faults_before = value.context().faults.size();
    PolicySettings policy;
    policy.name = name;
    policy.on_store_failure = declared.on_store_failure;

    Section section(value, policy_keys());
    read_who_and_what(section, config, policy, declared);
    if (const auto failure = section.find("on_store_failure")) {
        policy.on_store_failure = read_on_store_failure(*failure).value_or(policy.on_store_failure);
    }
    read_refusal(section, policy);
    Gradual gradual;
    read_enforce(section, gradual, policy);
    read_candidate(section, gradual, policy, config, declared);
    section.refuse_others();

    if (!value.is_map() || value.context().faults.size() != faults_before) return std::nullopt;
    return add_gradual(std::move(policy), std::move(gradual), config);
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

// Clients, the log and reports know a limit by one name: no two may share it.

namespace {

struct NameOwner {
    const limit::Policy* policy;
    const limit::Limit* limit;
};

// `first` was read before `second`. One of them at least is an entry of `policies`: names of the
// others do not lead to the same name.
void report_same_name(const NameOwner& first, const NameOwner& second, const std::string& name,
                      const Declared& declared, Context& context) {
    const bool second_is_declared = declared.policies.contains(second.policy->name);
    const NameOwner& here = second_is_declared ? second : first;
    const NameOwner& other = second_is_declared ? first : second;
    const auto place = declared.policies.find(here.policy->name);
    context.faults.push_back({place == declared.policies.end() ? Place{} : place->second.place,
                              "policies." + here.policy->name + ": its limit " +
                                  quote(here.limit->name) + " would be called " + quote(name) +
                                  ", as the limit " + quote(other.limit->name) + " of the policy " +
                                  quote(other.policy->name) +
                                  ": give one of the two limits or policies another name"});
}

}  // namespace

void check_limit_names(const Config& config, const Declared& declared, Context& context) {
    std::unordered_map<std::string, NameOwner> owners;
    for (const LimitList& list : config.limit_lists) {
        if (list.policy->twin_of != nullptr) continue;
        for (const limit::Limit& limit : list.limits()) {
            const NameOwner owner{list.policy, &limit};
            const auto [entry, is_new] =
                owners.emplace(limit::full_name(*list.policy, limit), owner);
            // The tiers of a policy have the same limits with other quotas.
            if (is_new || entry->second.policy == list.policy) continue;
            report_same_name(entry->second, owner, entry->first, declared, context);
            entry->second = owner;  // its tiers are not reported again
        }
    }
}

}  // namespace tidegate::config

// `cost` of a policy: what it reserves of a request, and how that is settled once the answer has
// ended; and which routes need the bodies of requests for it. And `cost` of a route.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "limit/limit.hpp"
#include "usage/answer.hpp"
#include "usage/json_reader.hpp"
#include "usage/request.hpp"

namespace tidegate::config {

namespace {

using usage::EstimateRule;
using usage::Provider;
using usage::Rates;
using usage::UsageSource;
using Settle = PolicyCost::Settle;

constexpr int kWeightDigits = 3;
constexpr std::int64_t kWeightScale = 1'000;
constexpr std::int64_t kWeightMax = 1'000'000;
constexpr std::int64_t kMicroDollars = 1'000'000;
constexpr std::int64_t kReservedDollarsMax = 1'000'000;
constexpr std::size_t kPointersMax = 16;
constexpr std::size_t kMemberBytesMax = 256;
// Each request is read by every rule.
constexpr std::size_t kEstimatesMax = 32;
constexpr IntegerRange kTokens{0, usage::kTokensMax};
constexpr std::string_view kAnyDecimal =
    R"({"anyOf":[{"type":"number","minimum":0},{"type":"string","pattern":"^[0-9]+(\\.[0-9]+)?$|\\$\\{"}]})";

constexpr std::array<std::pair<std::string_view, Provider>, 6> kProviders{{
    {"auto", Provider::automatic},
    {"openai", Provider::openai},
    {"openai_responses", Provider::openai_responses},
    {"anthropic", Provider::anthropic},
    {"gemini", Provider::gemini},
    {"bedrock", Provider::bedrock},
}};

std::vector<std::string_view> provider_names() {
    std::vector<std::string_view> names;
    names.reserve(kProviders.size());
    for (const auto& [name, provider] : kProviders) names.push_back(name);
    return names;
}

// In thousandths.
std::optional<std::int64_t> read_weight(const Value& value) {
    constexpr std::string_view kWanted =
        "a number from 0 to 1000000 with at most three decimals, such as `0.125`";
    const auto text = value.text(kWanted);
    if (!text) return std::nullopt;
    const auto weight = parse_fixed(*text, kWeightDigits);
    if (weight && *weight <= kWeightMax * kWeightScale) return weight;
    value.fault(quote(*text) + " is not " + std::string(kWanted));
    return std::nullopt;
}

// A member of a JSON body: a pointer as it is, or names with dots between them.
std::optional<std::string> read_pointer(const Value& value, std::string_view written) {
    constexpr std::string_view kRoot = "$.";  // of JSONPath
    if (written.starts_with(kRoot) && written.size() > kRoot.size()) {
        value.fault("`$` is a member's name here: write " + quote(written.substr(kRoot.size())));
        return std::nullopt;
    }
    std::string pointer = usage::json_pointer_of(written);
    const bool has_empty_name = pointer.ends_with('/') || pointer.find("//") != pointer.npos;
    if (usage::is_json_pointer(pointer) && !has_empty_name && pointer.size() <= kMemberBytesMax) {
        return pointer;
    }
    value.fault(quote(written) +
                " is not a member of a body: write names with dots between them, such as "
                "`usage.total_tokens`, or a JSON pointer, `/usage/total_tokens`, of at most " +
                std::to_string(kMemberBytesMax) + " bytes");
    return std::nullopt;
}

// `reserve`.

void read_members(const Value& value, EstimateRule& rule) {
    constexpr ListRule kMembers{"a list of members: `[max_tokens]`", "members", kPointersMax,
                                "the list is empty: remove it for those of the known providers"};
    for (const Value& item : value.one_or_more(kMembers)) {
        const auto text = item.text("a member of the body such as `max_tokens`");
        const auto pointer = text ? read_pointer(item, *text) : std::nullopt;
        if (pointer) add_once(item, quote(*text), *pointer, rule.output_max);
    }
}

const Keys<EstimateRule>& reserve_keys() {
    static const auto keys =
        Keys<EstimateRule>("`auto`, a number, or a map: `{default: 1000, max: 32000}`")
            .own("request_json", kind::one_or_more(kind::type("text"), {1, kPointersMax}),
                 read_members,
                 {"members of the request's JSON that bound its output, as paths with dots or as "
                  "JSON pointers; of several, the largest number counts",
                  "[those of the known providers](#costs-that-are-known-afterwards)",
                  "1 to 16 of 256 bytes"})
            .integer("plus_body", &EstimateRule::plus_body, {0, 1'024},
                     {"bytes of the body that are taken for a token of input; 0: input is not "
                      "estimated"})
            .integer("default", &EstimateRule::fallback, kTokens,
                     {"tokens of output where the request has no such member"})
            .integer("max", &EstimateRule::max, {1, kTokens.max},
                     {"the most tokens, of input and output together, that are reserved; also for "
                      "a body over `inspect_body`"});
    return keys;
}

// Without `request_json`, the members of the API that answers; of `auto`, of all.
std::size_t add_rule(const Value& value, EstimateRule rule, const PolicyCost& cost,
                     Declared& declared) {
    if (rule.output_max.empty() && cost.usage != nullptr && cost.usage->is_by_provider()) {
        const Provider provider = cost.usage->provider();
        // OpenAI has two APIs, and which one a body is for decides what bounds its output.
        if (provider == Provider::openai) {
            rule.provider = provider;
        } else {
            rule.output_max = usage::output_max_of(provider);
        }
    }
    auto& rules = declared.estimates;
    const auto found = std::find(rules.begin(), rules.end(), rule);
    const auto position = static_cast<std::size_t>(found - rules.begin());
    if (found != rules.end()) return position;
    if (rules.size() == kEstimatesMax) {
        value.fault("policies reserve by more than " + std::to_string(kEstimatesMax) +
                    " different rules: let some of them have the same values");
    } else {
        rules.push_back(rule);
    }
    return position;
}

void read_fixed_reserve(const Value& value, PolicyCost& cost) {
    const auto text = value.text(reserve_keys().wanted());
    if (!text) return;
    if (is_alphanumeric(text->front()) && !is_digit(text->front())) {
        value.fault(quote(*text) + " is not a cost: write " + std::string(reserve_keys().wanted()));
        return;
    }
    const auto units = cost.in_money ? read_dollars(value, kReservedDollarsMax)
                                     : value.integer({0, limit::kQuotaMax});
    cost.reserved = units.value_or(cost.reserved);
}

void read_reserve(const Value& value, PolicyCost& cost, Declared& declared) {
    EstimateRule rule;
    if (value.is_scalar() && !value.is("auto")) return read_fixed_reserve(value, cost);
    if (!value.is_scalar()) {
        Section section = reserve_keys().read(value, rule);
        if (rule.fallback > rule.max) {
            section.find("default").value_or(value).fault(
                "a default of " + std::to_string(rule.fallback) + " tokens is more than `max`, " +
                std::to_string(rule.max) + ": write at most that, or raise `max`");
        }
    }
    cost.rule = add_rule(value, rule, cost, declared);
    cost.cap = rule.fallback;
}

// `settle`.

std::shared_ptr<const UsageSource> shared_source(const std::string& name, UsageSource&& made,
                                                 Declared& declared) {
    auto& source = declared.usage_sources[name];
    if (source == nullptr) source = std::make_shared<const UsageSource>(std::move(made));
    return source;
}

void settle_by_provider(const Value& value, PolicyCost& cost, Declared& declared) {
    const auto provider = value.choice<Provider>(kProviders);
    if (!provider) return;
    cost.settle = Settle::usage;
    cost.usage = shared_source("provider " + std::to_string(static_cast<int>(*provider)),
                               UsageSource(*provider), declared);
}

void settle_by_json(const Value& value, PolicyCost& cost, Declared& declared) {
    constexpr ListRule kMembers{"a map of members and weights: `{usage.total_tokens: 1}`",
                                "members", kPointersMax,
                                "the map is empty: write `{usage.total_tokens: 1}`"};
    std::vector<UsageSource::Member> members;
    std::string name = "json";
    for (const auto& [path, item] : value.named(kMembers, false)) {
        const auto pointer = read_pointer(item, path);
        const auto weight = read_weight(item);
        if (!pointer || !weight) continue;
        if (cost.in_money && *weight >= kWeightScale) warn_about_dear_tokens(item, path);
        members.push_back({*pointer, static_cast<double>(*weight) / kWeightScale});
        name.append(" ").append(*pointer).append(" ") += std::to_string(*weight);
    }
    if (members.empty()) return;
    cost.settle = Settle::usage;
    cost.usage = shared_source(name, UsageSource(members), declared);
}

const Rows& settle_keys() {
    static const auto keys =
        Rows("the name of a provider, or a map: `{json: {usage.total_tokens: 1}}`")
            .key(
                "json",
                kind::written(
                    R"({"type":"object","minProperties":1,"maxProperties":16,"additionalProperties":)" +
                    std::string(kAnyDecimal) + "}"),
                {"members of the answer's JSON, as paths with dots or as JSON pointers, and what "
                 "one of each costs",
                 "", "1 to 16; 0 to 1,000,000 in steps of 0.001"})
            .key("header", kind::type("field_name"),
                 {"a field of the answer whose number is the cost"})
            .key("upstream_ms", kind::integer({1, 3'600'000}),
                 {"a unit for each so many milliseconds, begun ones included, from the request to "
                  "the end of the answer"})
            .key("bytes_out", kind::size({1, 1'073'741'824}),
                 {"a unit for each so many bytes of the answer's body, begun ones included"})
            .one_of_them();
    return keys;
}

void settle_by_header(const Value& value, PolicyCost& cost) {
    auto name = read_field_name(value);
    if (!name) return;
    cost.settle = Settle::header;
    cost.header = std::move(*name);
}

void settle_by_amount(const Value& value, Settle settle, std::optional<std::uint64_t> per_unit,
                      PolicyCost& cost) {
    if (!per_unit) return;
    if (cost.in_money) {
        value.fault(
            "cannot count money: settle by a provider, or by `json` or `header` that state "
            "dollars, or remove `unit: usd`");
        return;
    }
    cost.settle = settle;
    cost.each = 1.0 / static_cast<double>(*per_unit);
}

void read_settle(const Value& value, PolicyCost& cost, Declared& declared) {
    if (value.is_scalar()) return settle_by_provider(value, cost, declared);
    // What states a cost in money states dollars.
    if (cost.in_money) cost.each = kMicroDollars;
    Section section(value, settle_keys());
    const auto json = section.find("json");
    const auto header = section.find("header");
    const auto time = section.find("upstream_ms");
    const auto bytes = section.find("bytes_out");
    section.refuse_others();
    if (!value.is_map()) return;
    const int written = static_cast<int>(json.has_value()) + static_cast<int>(header.has_value()) +
                        static_cast<int>(time.has_value()) + static_cast<int>(bytes.has_value());
    if (written != 1) {
        value.fault("write one of `json`, `header`, `upstream_ms` and `bytes_out`");
    } else if (json) {
        settle_by_json(*json, cost, declared);
    } else if (header) {
        settle_by_header(*header, cost);
    } else if (time) {
        const auto ms = time->integer({1, 3'600'000});
        settle_by_amount(
            *time, Settle::time,
            ms ? std::optional<std::uint64_t>(static_cast<std::uint64_t>(*ms)) : std::nullopt,
            cost);
    } else {
        settle_by_amount(*bytes, Settle::bytes, bytes->size({1, 1'073'741'824}), cost);
    }
}

// `weights`.

std::optional<std::int64_t> weight_in(const Value& value) {
    const auto weight = read_weight(value);
    if (!weight) return std::nullopt;
    return *weight * (Rates::kUnit / kWeightScale);
}

auto weight_of(std::int64_t Rates::*member) {
    return [member](const Value& value, Rates& rates) {
        if (const auto weight = weight_in(value)) rates.*member = *weight;
    };
}

const Keys<Rates>& weights_keys() {
    static const auto keys =
        Keys<Rates>("a map: `{input: 1, cached: 0.1, cache_write: 1.25, output: 4}`")
            .own("input", kind::written(kAnyDecimal), weight_of(&Rates::input),
                 {"units of a token of input that no cache had", "`1`",
                  "0 to 1,000,000 in steps of 0.001"})
            .own("cached", kind::written(kAnyDecimal), weight_of(&Rates::cached),
                 {"of one that the provider's cache had", "`1`", "likewise"})
            .own("cache_write", kind::written(kAnyDecimal), weight_of(&Rates::cache_write),
                 {"of one that is written to the provider's cache", "`1`", "likewise"})
            .own("cache_write_1h", kind::written(kAnyDecimal),
                 [](const Value& value, Rates& rates) {
                     rates.cache_write_1h = weight_in(value).value_or(0);
                 },
                 {"of one that the provider's cache keeps for an hour", "what `cache_write` is",
                  "likewise"})
            .own("output", kind::written(kAnyDecimal), weight_of(&Rates::output),
                 {"of a token of output, reasoning included", "`1`", "likewise"});
    return keys;
}

bool settles_by_provider(const PolicyCost& cost) {
    return cost.usage != nullptr && cost.usage->is_by_provider();
}

bool counts_tokens(const PolicyCost& cost) {
    return cost.reads_body() || settles_by_provider(cost);
}

void read_weights(const Value& value, PolicyCost& cost) {
    weights_keys().read(value, cost.weights);
    if (cost.in_money) {
        value.fault(
            "remove it: with `unit: usd`, a token costs what the file of `prices` says of its "
            "model");
    } else if (!counts_tokens(cost)) {
        value.warn("has no effect: this policy counts no tokens");
    } else if (cost.weights.dearest() == 0) {
        value.warn("no token costs anything: write a weight above 0");
    }
}

// `ask_usage` and `write_cap`, which change the request.

void check_cap(const Value& value, const PolicyCost& cost, const Declared& declared) {
    if (cost.cap < 1) {
        value.fault(
            "needs the maximum to write: `reserve: auto`, or `reserve: {default: 1000}` "
            "with a default of at least 1");
        return;
    }
    if (cost.rule >= declared.estimates.size()) return;
    const auto& members = declared.estimates[cost.rule].output_max;
    const bool lists_cap = members.empty() || std::find(members.begin(), members.end(),
                                                        "/max_completion_tokens") != members.end();
    if (lists_cap) return;
    value.fault(
        "writes `max_completion_tokens`, which `request_json` does not list: add "
        "`/max_completion_tokens`, or remove `write_cap`");
}

// `reserve_is_broken`: it has a fault, of which others would only be the consequence.
void read_changes(Section& section, bool reserve_is_broken, PolicyCost& cost,
                  const Declared& declared) {
    section.toggle("ask_usage", cost.asks_usage);
    section.toggle("write_cap", cost.writes_cap);
    const auto settle = section.find("settle");
    const bool is_openai = settle && settle->is_scalar() && settle->is("openai");
    if (cost.asks_usage && !is_openai) {
        section.find("ask_usage")
            ->fault(
                "only OpenAI's API is asked for its usage: write `settle: openai`, or remove "
                "`ask_usage`");
    }
    if (cost.writes_cap && !is_openai) {
        section.find("write_cap")
            ->fault(
                "only requests to OpenAI's API get a maximum written: write `settle: openai`, "
                "or remove `write_cap`");
    } else if (cost.writes_cap && !reserve_is_broken) {
        check_cap(*section.find("write_cap"), cost, declared);
    }
}

void read_after_leaving(Section& section, PolicyCost& cost) {
    const auto value = section.find("settle_after_leaving");
    if (!value || value->is_off()) return;
    constexpr DurationRange kRange{milliseconds{1}, std::chrono::hours{1}};
    cost.settle_after_leaving = value->duration(kRange, true).value_or(milliseconds{0});
    if (cost.settle == Settle::never && !section.find("settle")) {
        value->warn("has no effect: without `settle`, what is reserved stays");
    }
}

// The unit comes first, as amounts are written in it.
void read_parts(Section& section, PolicyCost& cost, Declared& declared) {
    const auto unit = section.find("unit");
    if (unit) cost.in_money = unit->choice<bool>({{"usd", true}}).value_or(false);
    const auto reserve = section.find("reserve");
    const auto settle = section.find("settle");
    if (settle) read_settle(*settle, cost, declared);
    const std::vector<ConfigFault>& faults = section.value().context().faults;
    const std::size_t faults_before = faults.size();
    if (reserve) {
        read_reserve(*reserve, cost, declared);
    } else if (!settle || settle->is_scalar()) {
        cost.rule = add_rule(section.value(), EstimateRule{}, cost, declared);
        cost.cap = EstimateRule{}.fallback;
    } else if (cost.in_money) {
        section.need("reserve", "`reserve: 0.01`, in dollars, or `reserve: auto`");
    }
    const bool reserve_is_broken = faults.size() != faults_before;
    if (const auto weights = section.find("weights")) read_weights(*weights, cost);
    read_changes(section, reserve_is_broken, cost, declared);
    read_after_leaving(section, cost);
    if (cost.in_money && counts_tokens(cost) && !declared.has_prices) {
        unit->fault(
            "needs the price of a token: write `prices: prices.yaml` at the top, or settle by a "
            "`json` or `header` that states dollars, with a fixed `reserve`");
    }
}

// A reservation is taken when the request comes, and corrected when its answer has ended: both are
// defined where units are free again after a time.
bool fits(const limit::AlgorithmTraits& traits) {
    return traits.time_frees && !traits.has_moments && !traits.queues;
}

std::string fitting_algorithms() {
    std::vector<std::string_view> names;
    for (const limit::AlgorithmTraits& traits : limit::kAlgorithms) {
        if (fits(traits)) names.push_back(traits.name);
    }
    return one_of(names);
}

bool check_limits(const Value& value, const std::vector<limit::Limit>& limits) {
    const auto wrong = std::find_if(limits.begin(), limits.end(), [](const limit::Limit& limit) {
        return !fits(limit.traits()) || limit.count != limit::Count::admitted;
    });
    if (wrong == limits.end()) return true;
    const bool is_count = wrong->count != limit::Count::admitted;
    value.fault("a policy with a cost of its own cannot have the limit " + quote(wrong->name) +
                (is_count
                     ? ", which has `count`: remove `count`"
                     : ", of " + quote(wrong->traits().name) + ": write " + fitting_algorithms()));
    return false;
}

}  // namespace

void check_fit(const Value& value, const Value& reserve, const PolicyCost& cost,
               const limit::Policy& policy, const Declared& declared) {
    std::vector<const std::vector<limit::Limit>*> lists{&policy.limits};
    for (const limit::Tier& tier : policy.tiers) lists.push_back(&tier.limits);
    for (const auto* limits : lists) {
        if (!check_limits(value, *limits)) return;
        if (cost.reads_body()) continue;
        if (!check_cost_of(reserve, cost.reserved, policy, *limits, cost.in_money)) return;
    }
    warn_about_largest_reserve(reserve, cost, policy, policy.limits, declared);
}

const Rows& policy_cost_keys() {
    static const auto keys =
        Rows("a map: `{reserve: auto, settle: auto}`")
            .key("reserve",
                 kind::any({kind::fixed({"auto"}), kind::written(kAnyDecimal),
                            kind::map(reserve_keys())}),
                 {"what a request takes when it comes: `auto` estimates its tokens, a number is "
                  "fixed, and a map says [how to "
                  "estimate](#costs-that-are-known-afterwards)",
                  "`auto`; with a `settle` that is a map `1`",
                  "0 to 4,294,967,295; of `unit: usd` dollars, 0 to 1,000,000"})
            .key("settle", kind::any({kind::word(provider_names()), kind::map(settle_keys())}),
                 {"what the answer has cost: by the usage that a provider's API states (`auto`: "
                  "whichever it is), or `{json}`, `{header}`, `{upstream_ms}`, `{bytes_out}`",
                  "what is reserved stays"})
            .key("weights", kind::map(weights_keys()), {"units that a token of each kind costs"})
            .key("ask_usage", kind::toggle(),
                 {"ask OpenAI's API for the usage of a stream where the client leaves that open; "
                  "Tidegate removes the chunk with the usage, unless the answer is compressed or "
                  "has a `Content-Length`",
                  "`off`"})
            .key("write_cap", kind::toggle(),
                 {"write `max_completion_tokens`, the `default` of `reserve`, into a request to "
                  "OpenAI's API that has no maximum",
                  "`off`"})
            .key("settle_after_leaving",
                 kind::off_or(kind::duration({milliseconds{1}, std::chrono::hours{1}})),
                 {"how long Tidegate goes on reading the answer of a client that has left, to "
                  "settle what it truly cost",
                  "`off`"})
            .key("unit", kind::word({"usd"}),
                 {"`usd`: the policy counts dollars, by the file of [`prices`](#prices)",
                  "its own units"});
    return keys;
}

std::shared_ptr<const PolicyCost> read_policy_cost(const Value& value, const limit::Policy& policy,
                                                   bool limits_in_money, Declared& declared) {
    const std::size_t faults_before = value.context().faults.size();
    auto cost = std::make_shared<PolicyCost>();
    Section section(value, policy_cost_keys());
    read_parts(section, *cost, declared);
    section.refuse_others();
    if (!value.is_map() || value.context().faults.size() != faults_before) return nullptr;
    if (cost->in_money == limits_in_money) {
        check_fit(value, section.find("reserve").value_or(value), *cost, policy, declared);
    }
    return cost;
}

// Which routes need the bodies of requests.

namespace {

bool counts_by_body(const limit::Policy& policy) {
    return limit::any_part(policy.key, &limit::KeyPart::reads_body);
}

// A model has its price, and its name is in the body.
bool needs_body(const PolicyCost& cost) {
    return cost.reads_body() || cost.asks_usage || cost.writes_cap || cost.needs_price();
}

}  // namespace

bool needs_body(const PolicySettings& policy) {
    return counts_by_body(policy) || (policy.cost != nullptr && needs_body(*policy.cost));
}

void read_inspect_body(Section& section, const Config& config, Route& route) {
    const auto value = section.find("inspect_body");
    if (!value) return;
    const auto bytes = value->size(kInspectedBody);
    if (!bytes) return;
    route.inspected_bytes = static_cast<std::size_t>(*bytes);
    const std::uint64_t held = config.limits_on_requests.held_bodies;
    if (*bytes > route.body_bytes) {
        value->fault(
            "is larger than the bodies that this route takes: limits_on_requests.body_bytes is " +
            std::to_string(route.body_bytes) + " bytes. Write at most that");
    } else if (*bytes > held) {
        value->fault("is larger than limits_on_requests.held_bodies, " + std::to_string(held) +
                     " bytes: write at most that, or raise `held_bodies`");
    }
    const auto& policies = route.policies;
    if (std::none_of(policies.begin(), policies.end(),
                     [](const PolicySettings* policy) { return needs_body(*policy); })) {
        value->warn("has no effect: no policy of this route needs the bodies of requests");
    }
}

void settle_bodies(Config& config, const Declared& declared) {
    for (Route& route : config.routes) {
        route.inspected_bytes = static_cast<std::size_t>(
            std::min({std::uint64_t{route.inspected_bytes}, route.body_bytes,
                      config.limits_on_requests.held_bodies}));
        for (const PolicySettings* policy : route.policies) {
            route.reads_body = route.reads_body || needs_body(*policy);
            // A policy in shadow refuses no request.
            route.needs_whole_body =
                route.needs_whole_body || (counts_by_body(*policy) && !policy->shadow);
            route.refuses_coded_body =
                route.refuses_coded_body || (needs_body(*policy) && !policy->shadow);
            route.has_soft_policies = route.has_soft_policies || policy->soft;
            route.settles_costs =
                route.settles_costs || (policy->cost != nullptr && policy->cost->settles());
        }
    }
    if (std::any_of(config.policies.begin(), config.policies.end(),
                    [](const auto& policy) { return needs_body(*policy); })) {
        config.body_reader =
            std::make_shared<const usage::RequestReader>(declared.estimates, config.body_pointers);
    }
}

// `cost` of a route: how many units a request takes of each limit.
namespace {

// A quota of 0 is meant to deny and has a warning; a slot is one, whatever the request costs.
bool can_never_pass(std::int64_t cost, const limit::Limit& limit) {
    return limit.quota != 0 && !limit.traits().has_slots && cost > limit.most_at_once();
}

void read_cost_field(const Value& value, HeaderCost& cost) {
    cost.field = read_field_name(value).value_or("");
}

void read_stating_peers(const Value& value, HeaderCost& cost) {
    const auto anyone = value.choice<bool>({{"trusted_proxies", false}, {"anyone", true}});
    cost.from_anyone = anyone.value_or(false);
    if (!cost.from_anyone) return;
    value.warn(
        "every client can choose what its requests cost: write `from: trusted_proxies`, or make "
        "sure that `min` is enough");
}

}  // namespace

const Keys<HeaderCost>& cost_keys() {
    static const auto keys =
        Keys<HeaderCost>("a number, or a map: `{header: x-cost, default: 1, max: 100}`")
            .own("header", kind::type("field_name"), read_cost_field,
                 {"the field that states the cost", "required"})
            .required("`header: x-cost`")
            .own("from", kind::word({"trusted_proxies", "anyone"}), read_stating_peers,
                 {"who may state a cost: `trusted_proxies` or `anyone`", "`trusted_proxies`"})
            .key("default", kind::integer({0, limit::kQuotaMax}),
                 {"the cost where no field states one", "`1`"})
            .integer("min", &HeaderCost::min, {1, limit::kQuotaMax},
                     {"the least that a field may state"})
            .integer("max", &HeaderCost::max, {1, limit::kQuotaMax},
                     {"the most that a field may state"});
    return keys;
}

namespace {

void read_header_cost(const Value& value, Route& route) {
    HeaderCost cost;
    Section section = cost_keys().read(value, cost);
    if (const auto unstated = section.find("default")) {
        route.cost = unstated->integer({0, limit::kQuotaMax}).value_or(route.cost);
    }
    if (cost.min > cost.max) {
        section.find("min")->fault("must be at most `max`, " + std::to_string(cost.max));
    }
    route.header_cost = std::move(cost);
}

}  // namespace

void read_cost(const Value& value, Route& route) {
    if (!value.is_scalar()) {
        read_header_cost(value, route);
    } else if (const auto cost = value.integer({0, limit::kQuotaMax})) {
        route.cost = *cost;
    }
}

bool check_cost_of(const Value& value, std::int64_t cost, const limit::Policy& policy,
                   const std::vector<limit::Limit>& limits, bool in_money) {
    const auto shown = [in_money](std::int64_t units) {
        return in_money ? shortest_decimal(units) + " USD" : std::to_string(units);
    };
    for (const limit::Limit& limit : limits) {
        if (!can_never_pass(cost, limit)) continue;
        const std::string what = limit.most_at_once() != limit.quota ? "burst" : "quota";
        const std::string most = shown(limit.most_at_once());
        std::string fault = "a cost of ";
        fault.append(shown(cost)).append(" can never pass the ").append(what).append(" of ");
        fault.append(most).append(" in policy ").append(quote(policy.name));
        fault.append(": write a cost of at most ").append(most).append(", or raise the ");
        value.fault(fault.append(what));
        return false;
    }
    return true;
}

namespace {

bool check_cost_of_lists(const Value& value, std::int64_t cost, const PolicySettings& policy) {
    if (!check_cost_of(value, cost, policy, policy.limits, false)) return false;
    return std::all_of(policy.tiers.begin(), policy.tiers.end(), [&](const limit::Tier& tier) {
        return check_cost_of(value, cost, policy, tier.limits, false);
    });
}

}  // namespace

// A policy with a cost of its own does not take the route's.
void check_cost(const Value& value, const Route& route) {
    std::int64_t least = route.cost;
    if (route.header_cost) least = std::max(least, route.header_cost->min);
    for (const PolicySettings* policy : route.policies) {
        if (policy->cost != nullptr) continue;
        if (!check_cost_of_lists(value, least, *policy)) return;
        if (policy->candidate == nullptr) continue;
        if (!check_cost_of_lists(value, least, *policy->candidate)) return;
    }
}

}  // namespace tidegate::config

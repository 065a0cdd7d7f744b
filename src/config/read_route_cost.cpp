// `cost` of a route: how many units a request takes of each limit.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "limit/limit.hpp"

namespace tidegate::config {

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
        return in_money ? shown_dollars(units) + " USD" : std::to_string(units);
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

// `cost` of a route: what a request takes of each limit.
#include <utility>

#include "base/quote.hpp"
#include "config/header_field.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

// The most that can ever pass `limit` at once.
std::int64_t most_at_once(const limit::Limit& limit) {
    return limit.is_bucket() ? limit.burst : limit.quota;
}

// A quota of 0 is meant to deny and has a warning; a slot is one, whatever the request costs.
bool can_never_pass(std::int64_t cost, const limit::Limit& limit) {
    return limit.quota != 0 && !limit.is_concurrency() && cost > most_at_once(limit);
}

bool check_list(const Value& value, std::int64_t cost, const limit::Policy& policy,
                const std::vector<limit::Limit>& limits) {
    for (const limit::Limit& limit : limits) {
        if (!can_never_pass(cost, limit)) continue;
        const bool burst = most_at_once(limit) != limit.quota;
        value.fault("a cost of " + std::to_string(cost) + " can never pass the " +
                    (burst ? "burst" : "quota") + " of " + std::to_string(most_at_once(limit)) +
                    " in policy " + quote(policy.name) + ": write a cost of at most " +
                    std::to_string(most_at_once(limit)) + ", or raise the " +
                    (burst ? "burst" : "quota"));
        return false;
    }
    return true;
}

void read_header_cost(const Value& value, Route& route) {
    HeaderCost cost;
    Section section(value, "a number, or a map: `{header: x-cost, default: 1, max: 100}`");
    if (const auto header = section.need("header", "`header: x-cost`")) {
        cost.field = read_field_name(*header).value_or("");
    }
    if (const auto from = section.find("from")) {
        const auto anyone = from->choice<bool>({{"trusted_proxies", false}, {"anyone", true}});
        cost.from_anyone = anyone.value_or(false);
        if (cost.from_anyone)
            from->warn(
                "every client can choose what its requests cost: write `from: trusted_proxies`, or "
                "make sure that `min` is enough");
    }
    section.integer("default", route.cost, {0, limit::kQuotaMax});
    section.integer("min", cost.min, {1, limit::kQuotaMax});
    section.integer("max", cost.max, {1, limit::kQuotaMax});
    section.refuse_others();
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

void check_cost(const Value& value, const Route& route) {
    std::int64_t least = route.cost;
    if (route.header_cost) least = std::max(least, route.header_cost->min);
    for (const Policy* policy : route.policies) {
        if (!check_list(value, least, *policy, policy->limits)) return;
        for (const limit::Tier& tier : policy->tiers) {
            if (!check_list(value, least, *policy, tier.limits)) return;
        }
    }
}

}  // namespace tidegate::config

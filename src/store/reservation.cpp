#include "store/reservation.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "store/cross_slot_charge.hpp"

namespace tidegate::store {

namespace {

limit::Limit counting_all(limit::Limit limit) {
    limit.count = limit::Count::all;
    return limit;
}

std::vector<limit::Limit> counting_all(const std::vector<limit::Limit>& limits) {
    std::vector<limit::Limit> out;
    out.reserve(limits.size());
    for (const limit::Limit& limit : limits) out.push_back(counting_all(limit));
    return out;
}

const limit::Tier* tier_of(const limit::Policy& policy, std::string_view name) {
    const auto found = std::find_if(policy.tiers.begin(), policy.tiers.end(),
                                    [&](const limit::Tier& tier) { return tier.name == name; });
    return found != policy.tiers.end() ? &*found : nullptr;
}

}  // namespace

Reservation reservation_of(const LimitDecision& decision) {
    Reservation made;
    made.cost = decision.cost;
    made.moment = decision.moment;
    for_each_admission(decision, [&](const Admission& admission) {
        Reservation::Part& part = made.parts.emplace_back();
        part.in_redis = admission.in_redis;
        part.at = admission.receipt.at;
        for (std::size_t i = 0; i < admission.charge.items.size(); ++i) {
            const limit::ChargeItem& item = admission.charge.items[i];
            const auto& generations = admission.receipt.generations;
            part.items.push_back({item.policy->name, item.tier != nullptr ? item.tier->name : "",
                                  std::string(item.identifier),
                                  i < generations.size() ? generations[i] : 0});
        }
    });
    return made;
}

ReservedItems items_of(const Reservation::Part& part, const config::Config& config) {
    ReservedItems found;
    found.receipt.at = part.at;
    for (const Reservation::Item& item : part.items) {
        const auto policy = std::find_if(config.policies.begin(), config.policies.end(),
                                         [&](const auto& one) { return one->name == item.policy; });
        if (policy == config.policies.end()) continue;
        const limit::Tier* const tier = tier_of(**policy, item.tier);
        if (tier == nullptr && !item.tier.empty()) continue;
        found.items.push_back({policy->get(), item.identifier, tier});
        found.receipt.generations.push_back(item.generation);
    }
    return found;
}

UnconditionalItems unconditional(std::span<const limit::ChargeItem> items) {
    UnconditionalItems made;
    for (const limit::ChargeItem& item : items) {
        auto copy = std::make_unique<limit::Policy>(*item.policy);
        copy->limits = counting_all(copy->limits);
        for (limit::Tier& tier : copy->tiers) tier.limits = counting_all(tier.limits);
        const limit::Tier* const tier =
            item.tier != nullptr ? tier_of(*copy, item.tier->name) : nullptr;
        made.items.push_back({copy.get(), item.identifier, tier});
        made.policies.push_back(std::move(copy));
    }
    return made;
}

}  // namespace tidegate::store

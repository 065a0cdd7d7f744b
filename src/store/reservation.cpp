#include "store/reservation.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "store/cross_slot_charge.hpp"

namespace tidegate::store {

namespace {

using limit::Limit;

const limit::Tier* tier_of(const limit::Policy& policy, std::string_view name) {
    const auto found = std::find_if(policy.tiers.begin(), policy.tiers.end(),
                                    [&](const limit::Tier& tier) { return tier.name == name; });
    return found != policy.tiers.end() ? &*found : nullptr;
}

// A denied group has taken nothing, but for limits that count denied requests, too.
std::vector<Reservation::Taken> taken_from(const LimitDecision& decision,
                                           const limit::ChargeItem& item,
                                           std::uint64_t generation) {
    const bool all = generation != 0 || decision.cost == 0;
    std::vector<Reservation::Taken> taken;
    for (const Limit& limit : item.limits()) {
        if (!all && limit.count != limit::Count::all) continue;
        taken.push_back({limit.id, static_cast<std::uint32_t>(limit.quota)});
    }
    return taken;
}

// The limits that the configuration has for `item` now; none if its policy or tier is gone.
struct Known {
    const limit::Policy* policy = nullptr;
    std::span<const Limit> limits{};
    std::uint32_t index = 0;  // of this list of limits
};

Known find(const Reservation::Item& item, const config::Config& config) {
    const auto policy = std::find_if(config.policies.begin(), config.policies.end(),
                                     [&](const auto& one) { return one->name == item.policy; });
    if (policy == config.policies.end()) return {};
    const limit::Tier* const tier = tier_of(**policy, item.tier);
    if (tier == nullptr && !item.tier.empty()) return {};
    if (tier != nullptr) return {policy->get(), tier->limits, tier->index};
    return {policy->get(), (*policy)->limits, (*policy)->index};
}

// `change(limit, taken)` makes each limit what the correction needs.
template <class Change>
ReservedItems items_of(const Reservation::Part& part, const config::Config& config, Change change) {
    ReservedItems made;
    made.receipt.at = part.at;
    for (const Reservation::Item& item : part.items) {
        const Known known = find(item, config);
        std::vector<Limit> limits;
        for (const Limit& limit : known.limits) {
            const auto taken = std::find_if(item.limits.begin(), item.limits.end(),
                                            [&](const auto& one) { return one.limit == limit.id; });
            if (taken != item.limits.end()) change(limits.emplace_back(limit), *taken);
        }
        if (limits.empty()) continue;
        auto policy = std::make_unique<limit::Policy>(*known.policy);
        policy->limits = std::move(limits);
        policy->tiers.clear();
        policy->index = known.index;
        made.items.push_back({policy.get(), item.identifier});
        made.receipt.generations.push_back(item.generation);
        made.policies.push_back(std::move(policy));
    }
    return made;
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
            const std::uint64_t generation = i < generations.size() ? generations[i] : 0;
            part.items.push_back({item.policy->name, item.tier != nullptr ? item.tier->name : "",
                                  std::string(item.identifier), generation,
                                  taken_from(decision, item, generation)});
        }
    });
    return made;
}

ReservedItems items_to_give_back(const Reservation::Part& part, std::int64_t cost,
                                 const config::Config& config) {
    return items_of(part, config, [cost](Limit& limit, const Reservation::Taken& taken) {
        if (!limit.is_bucket()) return;
        limit.quota = taken.quota;
        limit.burst = std::max(limit.burst, cost);
    });
}

ReservedItems items_to_take(const Reservation::Part& part, const config::Config& config) {
    return items_of(part, config, [](Limit& limit, const Reservation::Taken&) {
        limit.count = limit::Count::all;
    });
}

}  // namespace tidegate::store

// The limits that tokens make, by the quotas that they state.
#include "config/claimed_quotas.hpp"

#include <algorithm>

#include "base/units.hpp"

namespace tidegate::config {

std::int64_t ClaimedQuota::quota_for(std::string_view text) const {
    constexpr int kMoneyDigits = 6;
    const auto stated = parse_fixed(text, in_money ? kMoneyDigits : 0);
    return stated ? std::min(*stated, max) : spec.quota;
}

const limit::Tier* ClaimedTiers::find(const limit::Policy& policy, const limit::Tier* tier,
                                      std::span<const ClaimedQuota* const> claimed,
                                      std::span<const std::int64_t> quotas) {
    Name name(tier != nullptr ? tier->index : policy.index, {quotas.begin(), quotas.end()});
    const std::lock_guard lock(mutex_);
    const auto known = tiers_.find(name);
    if (known != tiers_.end()) return known->second.get();
    if (tiers_.size() == kMax) return nullptr;
    auto made = std::make_unique<limit::Tier>();
    if (tier != nullptr) made->name = tier->name;
    made->index = name.first;
    made->by_claims = true;
    made->limits = tier != nullptr ? tier->limits : policy.limits;
    for (std::size_t i = 0; i < claimed.size(); ++i) {
        limit::LimitSpec spec = claimed[i]->spec;
        spec.quota = quotas[i];
        auto limit = limit::make_limit(spec);
        // Some algorithms take no quota of 0.
        if (limit) made->limits[claimed[i]->limit] = std::move(*limit);
    }
    return tiers_.emplace(std::move(name), std::move(made)).first->second.get();
}

}  // namespace tidegate::config

// The limits that tokens make, by the quotas that they state.
#include "config/claimed_quotas.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "base/text.hpp"
#include "base/units.hpp"

namespace tidegate::config {

namespace {

// Decimals without those behind the first `digits`. A text that is no number is left as it is.
std::string_view without_finer(std::string_view text, std::size_t digits) {
    const std::size_t dot = text.find('.');
    if (dot == text.npos || text.find_first_not_of("0123456789", dot + 1) != text.npos) return text;
    return text.substr(0, dot + 1 + digits);
}

// A number with an exponent, or with more digits than are counted. Nothing: the text is none.
std::optional<double> number_of(std::string_view text) {
    if (text.empty() || !is_digit(text.front())) return std::nullopt;
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
    return number;
}

}  // namespace

std::int64_t ClaimedQuota::quota_for(std::string_view text) const {
    constexpr int kDollarDigits = 6;
    constexpr double kMicrodollars = 1e6;
    const auto stated = in_money ? parse_fixed(without_finer(text, kDollarDigits), kDollarDigits)
                                 : parse_fixed(text, 0);
    if (stated) return std::min(*stated, max);
    const auto number = number_of(text);
    if (!number) return spec.quota;
    const double units = in_money ? *number * kMicrodollars : *number;
    if (units >= static_cast<double>(max)) return max;
    const bool is_rounded_to_none = in_money && units > 0 && units < 1;
    return is_rounded_to_none ? 0 : spec.quota;
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

// Quotas that a token states: `quota: {claim: rpm, default: 60, max: 10000}`. The state of such a
// limit is one, whatever its quota is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "limit/limit.hpp"

namespace tidegate::config {

// A limit whose quota is in a claim of the token that named the user, if there is one.
struct ClaimedQuota {
    std::size_t limit = 0;  // its position in the list
    std::size_t list = 0;   // 0: of the policy's own limits; else of the tier before this position
    std::string name;
    std::uint16_t claim = 0;  // the position of `name` in Config::claims
    std::int64_t max = 0;
    bool in_money =
        false;  // the claim states dollars, which `max` and the quota count in millionths
    limit::LimitSpec spec;  // its quota is the default

    // The quota for a claim of this text (identity::claim_value()), at most `max`. The default
    // where it is no number, or no whole one and no dollars, which are rounded down to a millionth.
    std::int64_t quota_for(std::string_view text) const;
};

// The lists of limits that tokens have made, each once: a charge points to its list for as long as
// the configuration lives. Any thread.
class ClaimedTiers {
  public:
    // Lists of one configuration. Tokens that state further quotas get the defaults.
    static constexpr std::size_t kMax = 4'096;

    // The limits of `tier`, or without one the policy's own, with these quotas: one for each of
    // `claimed`; a limit whose algorithm does not take its quota keeps the default. Null: there are
    // too many lists.
    const limit::Tier* find(const limit::Policy& policy, const limit::Tier* tier,
                            std::span<const ClaimedQuota* const> claimed,
                            std::span<const std::int64_t> quotas);

  private:
    using Name = std::pair<std::uint32_t, std::vector<std::int64_t>>;  // index and quotas

    std::mutex mutex_;
    std::map<Name, std::unique_ptr<const limit::Tier>> tiers_;
};

}  // namespace tidegate::config

// `enforce` and `candidate` of a policy: how a new limit, or a change of one, comes into force step
// by step. Each becomes a policy of its own beside the one that has it.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"

namespace tidegate::config {

namespace {

constexpr int kShareDigits = 3;
constexpr std::int64_t kWholeShare = 100'000;  // 100%, with that many decimals

// `25%` or `0.5%`. Without the sign it is a fault: `0.5` could mean 50% or 0.5%.
std::optional<std::int64_t> read_share(const Value& value) {
    const auto text = value.text("a percentage such as `25%`");
    if (!text) return std::nullopt;
    std::string_view number = *text;
    std::optional<std::int64_t> share;
    if (number.ends_with('%')) {
        number.remove_suffix(1);
        share = parse_fixed(number, kShareDigits);
    }
    if (share && *share > 0 && *share <= kWholeShare) return share;
    std::string fault = quote(*text) +
                        " is not a share of the identifiers: write a percentage above `0%` and up "
                        "to `100%`, with at most three decimals, such as `25%` or `0.5%`";
    if (share == 0) fault += "; for none of them, write `mode: shadow`";
    value.fault(fault);
    return std::nullopt;
}

// A hash is 64 bits: the share of them that are below the result is `share`.
std::uint64_t threshold_of(std::int64_t share) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(share) << 64) / kWholeShare);
}

// False: the mode of the policy refuses no request, which is reported.
bool fits_mode(const Value& value, std::string_view key, const PolicySettings& policy) {
    if (policy.is_enforced()) return true;
    value.fault("a policy with `mode: " + std::string(policy.soft ? "soft" : "shadow") +
                "` refuses no request: remove " + quote(key) + " or `mode`");
    return false;
}

bool have_concurrency(const std::vector<limit::Limit>& limits) {
    return std::any_of(limits.begin(), limits.end(),
                       [](const limit::Limit& limit) { return limit.traits().has_slots; });
}

// False: the candidate would count `concurrency`, which is reported.
bool can_judge(const Value& value, const PolicySettings& candidate, bool takes_over_tiers) {
    const auto tier = std::find_if(candidate.tiers.begin(), candidate.tiers.end(),
                                   [](const auto& one) { return have_concurrency(one.limits); });
    const bool is_in_tier = tier != candidate.tiers.end();
    if (!is_in_tier && !have_concurrency(candidate.limits)) return true;
    if (takes_over_tiers && !have_concurrency(candidate.limits)) {
        value.fault("the candidate takes over the tier " + quote(tier->name) +
                    ", which has `concurrency`: write `tiers` in the candidate without it");
        return false;
    }
    value.fault(
        "a candidate cannot count `concurrency`: how long a request that the live limits refuse "
        "would have lasted is not known. Move that limit, or the tier that has it, to a policy of "
        "its own");
    return false;
}

// What the policy would be with the candidate's limits.
PolicySettings made_candidate(const PolicySettings& policy) {
    PolicySettings candidate = policy;
    candidate.name.append(kCandidateSuffix);
    candidate.shadow = true;
    candidate.exempt = candidate.deny = {};
    std::erase_if(candidate.claimed_quotas, [](const ClaimedQuota& one) { return one.list == 0; });
    return candidate;
}

}  // namespace

const Rows& candidate_keys() {
    static const auto keys =
        Rows("a map: `{limits: [5/s]}`", "candidate")
            .key("limits", limits_kind(),
                 {"in place of the `limits` of the policy; all but `concurrency`", "required",
                  "1 to 32"})
            .required("`limits: [5/s]`")
            .key("tiers", tiers_kind(), {"in place of its `tiers`", "the policy's", "at most 64"});
    return keys;
}

std::string_view enforce_schema() {
    return R"re({"type":"string","pattern":"^([1-9][0-9]?(\\.[0-9]{1,3})?|0\\.(?!0+%)[0-9]{1,3}|100(\\.0{1,3})?)%$|\\$\\{"})re";
}

void read_enforce(Section& section, Gradual& gradual, const PolicySettings& policy) {
    const auto enforce = section.find("enforce");
    if (!enforce) return;
    const auto share = read_share(*enforce);
    if (!fits_mode(*enforce, "enforce", policy) || !share || *share == kWholeShare) return;
    gradual.enforced_below = threshold_of(*share);
}

void read_candidate(Section& section, Gradual& gradual, PolicySettings& policy, Config& config,
                    const Declared& declared) {
    const auto value = section.find("candidate");
    if (!value) return;
    Section below(*value, candidate_keys());
    const auto list = below.need("limits");
    const auto tiers = below.find("tiers");
    below.refuse_others();
    if (!fits_mode(*value, "candidate", policy)) return;
    PolicySettings candidate = made_candidate(policy);
    if (list) read_own_limits(*list, candidate, config);
    if (tiers) {
        candidate.tiers.clear();
        std::erase_if(candidate.claimed_quotas,
                      [](const ClaimedQuota& one) { return one.list != 0; });
        read_tiers(*tiers, candidate, config);
    }
    // Requests of the one may meet schedules of the other.
    if (!agree_on_moment(*value, candidate.moment, policy.moment)) return;
    if (!can_judge(*value, candidate, !tiers)) return;
    if (candidate.cost != nullptr) check_fit(*value, *value, *candidate.cost, candidate, declared);
    gradual.candidate = std::move(candidate);
}

std::size_t add_gradual(PolicySettings&& policy, Gradual&& gradual, Config& config) {
    const std::size_t position = config.policies.size();
    PolicySettings& live = append_policy(std::move(policy), config);
    live.has_candidate = gradual.candidate.has_value();
    if (gradual.enforced_below > 0) {
        PolicySettings twin = live;
        twin.shadow = true;
        twin.twin_of = &live;
        live.enforced_below = gradual.enforced_below;
        live.unenforced = &append_policy(std::move(twin), config);
    }
    if (gradual.candidate) {
        gradual.candidate->candidate_of = &live;
        live.candidate = &append_policy(std::move(*gradual.candidate), config);
    }
    return position;
}

}  // namespace tidegate::config

// The charges of requests that a running proxy has recorded.
#include <algorithm>
#include <utility>

#include "ask/charge_list.hpp"
#include "simulate/simulation.hpp"

namespace tidegate::simulate {

std::optional<Simulation::Verdict> Simulation::ask_recorded(const LoggedRequest& request,
                                                            ask::Decision& decision) {
    store::LimitDecision& asked = decision.charge;
    const config::PolicySettings* counting = nullptr;
    std::size_t first = 0;  // where its items begin
    std::string_view rest = request.text(LogText::charges);
    while (auto one = take_recorded_charge(rest)) {
        const bool is_candidate = one->policy.ends_with(config::kCandidateSuffix);
        if (is_candidate) one->policy.remove_suffix(config::kCandidateSuffix.size());
        const auto plan = std::find_if(plans_.begin(), plans_.end(), [&](const PolicyPlan& other) {
            return other.is_simulated && !other.policy->is_derived() &&
                   other.policy->name == one->policy;
        });
        if (plan == plans_.end()) {
            name_unknown(one->policy);
            continue;
        }
        if (std::exchange(counting, plan->policy) != plan->policy) first = asked.items.size();
        add_recorded(*one, *plan->policy, is_candidate, first, decision);
    }
    if (request.number(LogNumber::refused_elsewhere) == 1) return Verdict::elsewhere;
    if (asked.items.empty()) return Verdict::admitted;
    return std::nullopt;
}

// Adds the item of a charge, and that of the policy's candidate: behind all items of the policy,
// which begin at `first`. What a candidate has counted is what the policy before it does, but where
// the policy has no limits for the client: then only the candidate counts it.
void Simulation::add_recorded(const RecordedCharge& charge, const config::PolicySettings& policy,
                              bool is_candidate, std::size_t first, ask::Decision& decision) {
    store::LimitDecision& asked = decision.charge;
    const auto make = [&](const config::PolicySettings& counting) {
        const auto tier =
            std::find_if(counting.tiers.begin(), counting.tiers.end(),
                         [&](const limit::Tier& other) { return other.name == charge.tier; });
        limit::ChargeItem item{&counting, charge.identifier,
                               tier != counting.tiers.end() ? &*tier : nullptr};
        item.own_cost = charge.cost;
        return item;
    };
    const bool is_known =
        std::any_of(asked.items.begin(), asked.items.end(), [&](const limit::ChargeItem& other) {
            return &other.policy->written() == &policy && other.identifier == charge.identifier;
        });
    if (is_known) return;
    if (!is_candidate) {
        const auto end = std::find_if(
            asked.items.begin() + static_cast<std::ptrdiff_t>(first), asked.items.end(),
            [](const limit::ChargeItem& item) { return item.policy->is_candidate(); });
        const bool is_enforced =
            policy.unenforced == nullptr || ask::is_in_share(policy, charge.identifier);
        const limit::ChargeItem item = make(is_enforced ? policy : *policy.unenforced);
        if (!item.limits().empty()) {
            asked.items.insert(end, item);
            asked.needs_settling =
                asked.needs_settling || rules_.config->limit_lists[ask::list_of(item)].settles;
        }
    }
    if (policy.candidate == nullptr) return;
    const limit::ChargeItem candidate = make(*policy.candidate);
    if (!candidate.limits().empty()) asked.items.push_back(candidate);
}

void Simulation::name_unknown(std::string_view policy) {
    constexpr std::size_t kNamed = 20;
    const auto known = std::find(unknown_policies_.begin(), unknown_policies_.end(), policy);
    if (known != unknown_policies_.end() || unknown_policies_.size() == kNamed) return;
    unknown_policies_.emplace_back(policy);
}

}  // namespace tidegate::simulate

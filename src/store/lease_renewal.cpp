#include "store/lease_renewal.hpp"

#include <algorithm>
#include <utility>

#include "store/cross_slot_charge.hpp"
#include "store/refund_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

constexpr std::size_t kReleasesMax = 1'000;  // beyond this, slots wait for their lease to end

bool counts_concurrency(const limit::ChargeItem& item) {
    const auto limits = item.limits();
    return std::any_of(limits.begin(), limits.end(),
                       [](const limit::Limit& limit) { return limit.is_concurrency(); });
}

}  // namespace

void LeaseRenewal::add(LimitDecision& decision) {
    if (!decision.needs_settling || decision.cost == 0 ||
        std::none_of(decision.items.begin(), decision.items.end(), counts_concurrency)) {
        return;
    }
    decision.store_state.renewed = decision.store_state.asked;
    holders_.push_back(decision);
}

void LeaseRenewal::release_later(const LimitDecision& decision, const limit::Charge& charge) {
    if (!decision.needs_settling || releases_.size() >= kReleasesMax) return;
    for (std::string& command : release_commands(charge, redis_.key_prefix)) {
        releases_.push_back({std::move(command), redis_.slot_of(charge.items)});
    }
}

void LeaseRenewal::renew(SteadyTime now) {
    for (Release& release : std::exchange(releases_, {})) {
        redis_.send_and_forget(std::move(release.command), nullptr, release.slot);
    }
    for (LimitDecision& decision : holders_) {
        if (now - decision.store_state.renewed < limit::kLease / 3) continue;
        decision.store_state.renewed = now;
        for_each_admission(decision, [&](const Admission& admission) {
            const auto& charge = admission.charge;
            std::string command;
            if (!admission.in_redis ||
                !append_renew_command(charge, redis_.key_prefix, redis_.clock(), command)) {
                return;
            }
            redis_.send_and_forget(std::move(command), &renew_script(),
                                   redis_.slot_of(charge.items));
        });
    }
}

}  // namespace tidegate::store

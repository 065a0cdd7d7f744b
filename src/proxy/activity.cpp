#include "proxy/activity.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <boost/container/static_vector.hpp>

#include "ask/decided_limits.hpp"
#include "ask/verdict.hpp"

namespace tidegate::proxy {

namespace {

// Identifiers that one decision denies, each once; beyond the bound they are left out.
class IdentifierSet {
  public:
    // False: it was there, or there is no room.
    bool insert(std::string_view identifier) {
        if (all_.size() == all_.capacity()) return false;
        if (std::find(all_.begin(), all_.end(), identifier) != all_.end()) return false;
        all_.push_back(identifier);
        return true;
    }

  private:
    boost::container::static_vector<std::string_view, 16> all_;
};

void count_identifiers(const store::LimitDecision& charge, telemetry::TopNames& names,
                       std::chrono::steady_clock::time_point now) {
    // Each once, though several policies may count it; there are few.
    for (auto item = charge.items.begin(); item != charge.items.end(); ++item) {
        const bool is_counted = std::any_of(
            charge.items.begin(), item,
            [&](const limit::ChargeItem& other) { return other.identifier == item->identifier; });
        if (!is_counted) names.add(item->identifier, now);
    }
}

}  // namespace

void note_activity(telemetry::Activity::Names& names, const ask::Ruleset& rules,
                   const ask::Decision& decision, std::string_view request_id,
                   std::chrono::steady_clock::time_point now) {
    using Result = store::LimitDecision::Result;
    const store::LimitDecision& charge = decision.charge;
    if (charge.result == Result::pending) return;
    // A request of cost 0 takes nothing.
    if (charge.cost > 0) count_identifiers(charge, names.requests, now);
    if (charge.result != Result::limited) return;
    IdentifierSet denied;
    bool is_first = true;
    ask::for_each_limit(
        charge, [&](const limit::ChargeItem& item, std::size_t i, const limit::LimitVerdict& one) {
            if (!one.denied || item.policy->shadow) return;
            if (denied.insert(item.identifier)) names.denials.add(item.identifier, now);
            // The limit that the access log names.
            if (!std::exchange(is_first, false) || !names.denied.admits(item.identifier, now))
                return;
            const std::int64_t quota = item.limits()[i].quota;
            const std::int64_t retry_after = ask::retry_after_seconds(charge);
            telemetry::Denial& denial = names.denied.keep(std::chrono::system_clock::now());
            denial.request_id = request_id;
            denial.identifier = item.identifier;
            if (decision.route != nullptr) denial.route = decision.route->name;
            denial.policy = item.policy->name;
            denial.limit = rules.policy_texts.of(item, i).name;
            denial.count = quota - std::clamp<std::int64_t>(one.remaining, 0, quota);
            denial.quota = quota;
            if (retry_after > 0) denial.retry_after_seconds = retry_after;
        });
}

}  // namespace tidegate::proxy

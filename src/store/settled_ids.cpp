#include "store/settled_ids.hpp"

namespace tidegate::store {

SettledIds::Claim SettledIds::claim(const std::string& id, std::int64_t cost, Time now,
                                    Time until) {
    using State = Claim::State;
    constexpr std::chrono::seconds kSweepIdsEvery{10};
    const std::lock_guard lock(mutex_);
    if (now - swept_ >= kSweepIdsEvery) {
        swept_ = now;
        std::erase_if(ids_, [&](const auto& one) { return one.second.until <= now; });
    }
    if (const auto known = ids_.find(id); known != ids_.end()) {
        const Entry& entry = known->second;
        return {entry.is_settled ? State::settled : State::settling, entry.cost};
    }
    if (ids_.size() >= kIdsMax) return {State::full};
    ids_.emplace(id, Entry{cost, until});
    return {State::first};
}

void SettledIds::settled(const std::string& id) {
    const std::lock_guard lock(mutex_);
    if (const auto known = ids_.find(id); known != ids_.end()) known->second.is_settled = true;
}

void SettledIds::forget(const std::string& id) {
    const std::lock_guard lock(mutex_);
    ids_.erase(id);
}

}  // namespace tidegate::store

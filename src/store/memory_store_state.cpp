#include "store/memory_store_state.hpp"

#include <algorithm>

namespace tidegate::store {

std::size_t State::find(const limit::Limit& limit, std::size_t hint) const {
    if (hint < records.size() && records[hint].counts(limit)) return hint;
    const auto found = std::find_if(records.begin(), records.end(),
                                    [&](const Record& record) { return record.counts(limit); });
    return static_cast<std::size_t>(found - records.begin());
}

bool State::may_go() const {
    return !pinned && std::none_of(records.begin(), records.end(),
                                   [](const Record& record) { return record.holds_slots(); });
}

bool State::has_expired(const limit::Now& now) const {
    const std::int64_t now_us = now.steady.count();
    return expires_us <= now_us && may_go() &&
           std::none_of(records.begin(), records.end(),
                        [&](const Record& record) { return record.ends_us(now) > now_us; });
}

double State::weight(const limit::Now& now) const {
    double heaviest = 0;
    for (const Record& record : records) heaviest = std::max(heaviest, record.weight(now));
    return heaviest;
}

bool is_called(const State& state, const StateName& name) {
    const std::string_view whole = state.name;
    return whole.size() == name.policy.size() + 1 + name.identifier.size() &&
           whole.starts_with(name.policy) && whole[name.policy.size()] == '\0' &&
           whole.ends_with(name.identifier);
}

}  // namespace tidegate::store

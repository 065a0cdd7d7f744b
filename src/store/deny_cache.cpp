#include "store/deny_cache.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string_view>

namespace tidegate::store {

namespace {

using limit::Micros;

// A window of fixed_window that is full, for as long as the denial holds: what denied requests take
// there ends with it, and changes nothing before.
bool is_full_window(const limit::Limit& limit, const limit::LimitVerdict& one, Micros retry_after) {
    return limit.count == limit::Count::all && limit.frees_all_at_once() && one.remaining == 0 &&
           one.next_unit >= retry_after;
}

bool may_be_remembered(const limit::Charge& charge, const limit::Verdict& verdict) {
    std::size_t position = 0;
    for (const limit::ChargeItem& item : charge.items) {
        // A candidate counts requests that the live limits of its policy deny.
        if (item.policy->is_candidate()) return false;
        for (const limit::Limit& limit : item.limits()) {
            const std::size_t at = position++;
            // What a policy says that is not enforced does not change the answer.
            if (!item.policy->is_enforced() || limit.only_time_frees()) continue;
            if (!is_full_window(limit, verdict.limits[at], verdict.retry_after)) return false;
        }
    }
    return true;
}

template <class Number>
void append_bytes(Number number, std::string& out) {
    char bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    out.append(bytes, sizeof bytes);
}

// Calls `visit(policy, verdict)` for each limit of the charge that `verdict` answers.
template <class Visit>
void for_each_limit(const limit::Charge& charge, limit::Verdict& verdict, Visit visit) {
    auto one = verdict.limits.begin();
    for (const limit::ChargeItem& item : charge.items) {
        for (std::size_t i = 0; i < item.limits().size() && one != verdict.limits.end(); ++i) {
            visit(*item.policy, *one++);
        }
    }
}

// What a denial still says once `passed` has gone by. A limit without a unit left has none until
// the next is free; the count of any other may have changed. And a limit that has got a unit may
// have ceased to deny, while the rest of the denial holds. Policies that are not enforced say what
// they said when Redis was asked, but for denials of limits that have got a unit.
void age(const limit::Charge& charge, Micros passed, limit::Verdict& verdict) {
    if (verdict.retry_after != limit::kNever) {
        verdict.retry_after = std::max(Micros{1}, verdict.retry_after - passed);
    }
    const auto has_freed = [passed](const limit::LimitVerdict& one) {
        return one.next_unit > Micros{0} && one.next_unit <= passed;
    };
    bool any_sure = false;
    for_each_limit(charge, verdict, [&](const limit::Policy& policy, limit::LimitVerdict& one) {
        if (policy.is_enforced() && one.denied && !has_freed(one)) any_sure = true;
    });
    verdict.shadow_admitted = true;
    for_each_limit(charge, verdict, [&](const limit::Policy& policy, limit::LimitVerdict& one) {
        const bool freed = has_freed(one);
        one.is_current = one.remaining == 0 && !freed;
        if (freed && (any_sure || !policy.is_enforced())) one.denied = false;
        if (policy.shadow && one.denied) verdict.shadow_admitted = false;
        if (one.next_unit != limit::kNever) {
            one.next_unit = std::max(Micros{0}, one.next_unit - passed);
        }
    });
}

// What each item cost that denied; 0 for one that did not.
void note_costs(const limit::Charge& charge, const limit::Verdict& verdict,
                std::vector<std::int64_t>& costs) {
    costs.clear();
    if (!charge.has_own_costs()) return;
    std::size_t position = 0;
    for (const limit::ChargeItem& item : charge.items) {
        bool denied = false;
        for (std::size_t i = 0; i < item.limits().size(); ++i) {
            denied = denied || verdict.limits[position].denied;
            ++position;
        }
        costs.push_back(denied && item.policy->is_enforced() ? charge.cost_of(item) : 0);
    }
}

// Workers add at the same time: the later time stays.
void raise_to(std::atomic<std::int64_t>& number, std::int64_t to) {
    std::int64_t known = number.load(std::memory_order_relaxed);
    while (known < to && !number.compare_exchange_weak(known, to, std::memory_order_release,
                                                       std::memory_order_relaxed)) {
    }
}

}  // namespace

DenyCache::DenyCache(const Options& options, const FreedIdentifiers* freed)
    : options_(options), freed_(freed) {
    std::random_device device;
    secret_ = std::uint64_t{device()} << 32 | device();
}

// Identifiers hold no zero byte, so no two lists of items have one name.
std::uint64_t DenyCache::name_of(const limit::Charge& charge) {
    name_.clear();
    append_bytes(secret_, name_);
    for (const limit::ChargeItem& item : charge.items) {
        append_bytes(item.tier != nullptr ? item.tier->index : item.policy->index, name_);
        name_.append(item.identifier).push_back('\0');
        if (item.tier == nullptr || !item.tier->by_claims) continue;
        for (const limit::Limit& limit : item.tier->limits) append_bytes(limit.quota, name_);
    }
    return std::hash<std::string_view>{}(name_);
}

void DenyCache::remember(const limit::Charge& charge, const limit::Verdict& verdict,
                         SteadyTime sent) {
    if (options_.entries == 0 || sent <= cleared_ || !charge.takes()) return;
    if (!may_be_remembered(charge, verdict)) return;
    const std::uint64_t hash = name_of(charge);
    Denial& denial = slot_for(hash);
    denial.name = name_;
    denial.hash = hash;
    denial.cost = charge.cost;
    note_costs(charge, verdict, denial.costs);
    denial.sent = sent;
    denial.until = sent + std::min(verdict.retry_after, options_.max_ttl);
    denial.verdict = verdict;
}

DenyCache::Denial& DenyCache::slot_for(std::uint64_t hash) {
    if (const auto known = positions_.find(hash); known != positions_.end()) {
        return ring_[known->second];
    }
    if (ring_.size() < options_.entries) {
        positions_[hash] = static_cast<std::uint32_t>(ring_.size());
        return ring_.emplace_back();
    }
    Denial& oldest = ring_[next_];
    positions_.erase(oldest.hash);
    positions_[hash] = static_cast<std::uint32_t>(next_);
    next_ = (next_ + 1) % ring_.size();
    return oldest;
}

bool DenyCache::costs_less(const limit::Charge& charge, const Denial& denial) {
    if (denial.costs.empty() && !charge.has_own_costs()) return charge.cost < denial.cost;
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        const std::int64_t denied = denial.costs.empty() ? denial.cost : denial.costs[i];
        if (charge.cost_of(charge.items[i]) < denied) return true;
    }
    return false;
}

bool DenyCache::recall(const limit::Charge& charge, SteadyTime now, limit::Verdict& verdict) {
    if (positions_.empty()) return false;
    const auto known = positions_.find(name_of(charge));
    if (known == positions_.end()) return false;
    const Denial& denial = ring_[known->second];
    if (now >= denial.until || denial.name != name_ || costs_less(charge, denial)) return false;
    if (freed_ != nullptr && freed_->any(charge.items, denial.sent)) return false;
    verdict = denial.verdict;
    age(charge, std::chrono::duration_cast<Micros>(now - denial.sent), verdict);
    return true;
}

void DenyCache::clear(SteadyTime now) {
    cleared_ = now;
    positions_.clear();
    ring_.clear();
    next_ = 0;
}

void DenyCache::restart(const Options& options, SteadyTime now) {
    options_ = options;
    clear(now);
}

void FreedIdentifiers::add_at(Place place, SteadyTime now) {
    raise_to(places_[place], number(now));
    raise_to(newest_, number(now));
}

FreedIdentifiers::Place FreedIdentifiers::place_of(std::string_view identifier) {
    return static_cast<Place>(std::hash<std::string_view>{}(identifier) % kPlaces);
}

bool FreedIdentifiers::look(std::span<const limit::ChargeItem> items, SteadyTime since) const {
    return std::any_of(items.begin(), items.end(), [&](const limit::ChargeItem& item) {
        return places_[place_of(item.identifier)].load(std::memory_order_acquire) >= number(since);
    });
}

}  // namespace tidegate::store

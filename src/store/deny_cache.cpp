#include "store/deny_cache.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string_view>

namespace tidegate::store {
namespace {

using limit::Micros;

bool may_be_remembered(const limit::Charge& charge) {
    return std::all_of(charge.items.begin(), charge.items.end(), [](const limit::ChargeItem& item) {
        const auto limits = item.limits();
        return !item.policy->shadow &&
               std::all_of(limits.begin(), limits.end(),
                           [](const limit::Limit& limit) { return limit.only_time_frees(); });
    });
}

template <class Number>
void append_bytes(Number number, std::string& out) {
    char bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    out.append(bytes, sizeof bytes);
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
    }
    return std::hash<std::string_view>{}(name_);
}

void DenyCache::remember(const limit::Charge& charge, const limit::Verdict& verdict,
                         SteadyTime sent) {
    if (options_.entries == 0 || sent <= cleared_ || charge.cost == 0 || !may_be_remembered(charge))
        return;
    const std::uint64_t hash = name_of(charge);
    Denial& denial = slot_for(hash);
    denial.name = name_;
    denial.hash = hash;
    denial.cost = charge.cost;
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

bool DenyCache::recall(const limit::Charge& charge, SteadyTime now, limit::Verdict& verdict) {
    if (positions_.empty()) return false;
    const auto known = positions_.find(name_of(charge));
    if (known == positions_.end()) return false;
    const Denial& denial = ring_[known->second];
    if (now >= denial.until || charge.cost < denial.cost || denial.name != name_) return false;
    if (freed_ != nullptr && freed_->any(charge.items, denial.sent)) return false;
    const Micros passed = std::chrono::duration_cast<Micros>(now - denial.sent);
    verdict = denial.verdict;
    if (verdict.retry_after != limit::kNever) {
        verdict.retry_after = std::max(Micros{1}, verdict.retry_after - passed);
    }
    for (limit::LimitVerdict& one : verdict.limits) {
        one.next_unit = std::max(Micros{0}, one.next_unit - passed);
    }
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

}  // namespace tidegate::store

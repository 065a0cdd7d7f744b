#include "store/local_ledger.hpp"

#include <algorithm>
#include <utility>

#include <boost/unordered/unordered_flat_set.hpp>

#include "base/secrets.hpp"

namespace tidegate::store {
namespace {

using limit::ChargeItem;
using limit::Limit;
using limit::Micros;

constexpr std::size_t kSamples = 8;        // of entries that may be forgotten
constexpr std::size_t kLookedAtMost = 64;  // by one hand_out()

// Copies count in the same way and as much: what is noted of one is true of the other.
bool is_copy_of(const limit::Policy& copy, const ChargeItem& item) {
    const auto limits = item.limits();
    return copy.name == item.policy->name &&
           std::equal(copy.limits.begin(), copy.limits.end(), limits.begin(), limits.end(),
                      [](const Limit& left, const Limit& right) {
                          return left.id == right.id && left.quota == right.quota &&
                                 left.burst == right.burst && left.max_delay == right.max_delay &&
                                 left.zone == right.zone;
                      });
}

}  // namespace

std::size_t LocalLedger::Hash::operator()(const Name& name) const {
    const auto policy = reinterpret_cast<std::uintptr_t>(name.policy);
    return hash_text(name.identifier, secret ^ policy, secret);
}

LocalLedger::LocalLedger(const Options& options) : options_(options), places_(0, Hash{1}) {
    std::random_device device;
    places_ = decltype(places_)(0, Hash{(std::uint64_t{device()} << 32 | device()) | 1});
    random_.seed(device());
}

LocalLedger::~LocalLedger() = default;

std::size_t LocalLedger::take(const limit::Charge& charge, const limit::Verdict& verdict,
                              Micros wall_ahead) {
    if (charge.cost == 0) return 0;
    const limit::Now now{verdict.receipt.at, verdict.receipt.at + wall_ahead};
    latest_ = std::max(latest_, now.steady);
    std::size_t forgotten = 0;
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        const ChargeItem& item = charge.items[i];
        const bool granted = verdict.receipt.generations[i] != 0;
        const auto limits = item.limits();
        const auto is_noted = [&](const Limit& limit) {
            return limit.traits().reports && (granted || limit.count == limit::Count::all);
        };
        if (std::none_of(limits.begin(), limits.end(), is_noted)) continue;
        LocalTaken& taken = made(item, forgotten);
        const std::size_t before = taken.portions();
        for (std::size_t k = 0; k < limits.size(); ++k) {
            if (is_noted(limits[k])) taken.take(k, charge.cost, now);
        }
        portions_ = portions_ + taken.portions() - before;
    }
    return forgotten + make_room(0);
}

void LocalLedger::give_back(const limit::Refund& refund, const limit::Now& now) {
    const auto& generations = refund.receipt->generations;
    if (generations.size() != refund.charge.items.size() || refund.charge.cost == 0) return;
    for (std::size_t i = 0; i < generations.size(); ++i) {
        const ChargeItem& item = refund.charge.items[i];
        LocalTaken* const taken = generations[i] != 0 ? find(item) : nullptr;
        if (taken == nullptr) continue;
        const std::size_t before = taken->portions();
        const auto limits = item.limits();
        for (std::size_t k = 0; k < limits.size(); ++k) {
            if (!limits[k].traits().reports || !refund.concerns(limits[k])) continue;
            taken->give_back(k, refund.charge.cost, refund.receipt->at, now);
        }
        portions_ -= before - taken->portions();
    }
}

void LocalLedger::forget(std::span<const ChargeItem> items) {
    boost::unordered_flat_set<std::pair<std::string_view, std::string_view>> meant;
    for (const ChargeItem& item : items) meant.emplace(item.identifier, item.policy->name);
    for (std::size_t place = kept_.size(); place > 0; --place) {
        const LocalTaken& one = *kept_[place - 1];
        if (meant.contains({one.identifier, one.policy->name})) remove(place - 1);
    }
}

std::vector<LocalTaken> LocalLedger::hand_out(std::size_t most, const Ready& ready) {
    std::vector<LocalTaken> handed;
    const std::size_t looked_at = std::min(kept_.size(), kLookedAtMost);
    for (std::size_t looked = 0; looked < looked_at && handed.size() < most; ++looked) {
        if (hand_ >= kept_.size()) hand_ = 0;
        if (ready(*kept_[hand_])) {
            handed.push_back(remove(hand_));
        } else {
            ++hand_;
        }
    }
    return handed;
}

std::size_t LocalLedger::put_back(LocalTaken taken) {
    const std::size_t forgotten = make_room(1);
    const auto there = places_.find(Name{taken.policy.get(), taken.identifier});
    if (there != places_.end()) {
        taken.add_later(remove(there->second));
    }
    keep(std::move(taken));
    return forgotten;
}

// Limits are copied once for all identifiers that they count.
const std::shared_ptr<const limit::Policy>& LocalLedger::copy_of(const ChargeItem& item) {
    const std::size_t index = item.tier != nullptr ? item.tier->index : item.policy->index;
    if (index >= copies_.size()) copies_.resize(index + 1);
    std::shared_ptr<const limit::Policy>& copy = copies_[index];
    if (copy && is_copy_of(*copy, item)) return copy;
    limit::Policy made;
    made.name = item.policy->name;
    made.limits.assign(item.limits().begin(), item.limits().end());
    made.shadow = item.policy->shadow;
    copy = std::make_shared<const limit::Policy>(std::move(made));
    return copy;
}

LocalTaken* LocalLedger::find(const ChargeItem& item) {
    const auto found = places_.find(Name{copy_of(item).get(), item.identifier});
    return found == places_.end() ? nullptr : kept_[found->second].get();
}

LocalTaken& LocalLedger::made(const ChargeItem& item, std::size_t& forgotten) {
    if (LocalTaken* const found = find(item)) return *found;
    forgotten += make_room(1);
    LocalTaken taken;
    taken.policy = copy_of(item);
    taken.identifier = item.identifier;
    taken.limits.resize(item.limits().size());
    keep(std::move(taken));
    return *kept_.back();
}

void LocalLedger::keep(LocalTaken taken) {
    portions_ += taken.portions();
    kept_.push_back(std::make_unique<LocalTaken>(std::move(taken)));
    const LocalTaken& one = *kept_.back();
    places_.emplace(Name{one.policy.get(), one.identifier}, kept_.size() - 1);
}

// The last one takes its place.
LocalTaken LocalLedger::remove(std::size_t place) {
    LocalTaken& one = *kept_[place];
    places_.erase(Name{one.policy.get(), one.identifier});
    LocalTaken removed = std::move(one);
    portions_ -= removed.portions();
    if (place + 1 < kept_.size()) {
        kept_[place] = std::move(kept_.back());
        places_.find(Name{kept_[place]->policy.get(), kept_[place]->identifier})->second = place;
    }
    kept_.pop_back();
    return removed;
}

// A flood of new names evicts its own entries, not those near their limit.
std::size_t LocalLedger::make_room(std::size_t names) {
    std::size_t forgotten = 0;
    while (!kept_.empty() &&
           (kept_.size() + names > options_.identifiers_max || portions_ > options_.portions_max)) {
        std::size_t least = 0;
        double least_weight = -1;
        for (std::size_t sample = 0; sample < kSamples; ++sample) {
            // The newest is among them, and goes before those that are as heavy: a flood of names
            // evicts its own entries.
            const std::size_t place = sample == 0 ? kept_.size() - 1 : random_() % kept_.size();
            const LocalTaken& one = *kept_[place];
            const double weight = one.ends <= latest_ ? 0 : one.weight();
            if (least_weight >= 0 && weight >= least_weight) continue;
            least = place;
            least_weight = weight;
        }
        remove(least);
        ++forgotten;
    }
    return forgotten;
}

}  // namespace tidegate::store

#include "store/local_ledger.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <boost/unordered/unordered_flat_set.hpp>

#include "limit/period.hpp"
#include "limit/window.hpp"
#include "store/keyed_hash.hpp"

namespace tidegate::store {
namespace {

using limit::ChargeItem;
using limit::Limit;
using limit::Micros;
using Portion = LocalTaken::Portion;
using OfLimit = LocalTaken::OfLimit;

constexpr std::size_t kSamples = 8;        // of what may be forgotten
constexpr std::size_t kLookedAtMost = 64;  // by one hand_out()

// Copies count in the same way and as much: what is noted of one is true of the other.
bool is_copy_of(const limit::Policy& copy, const ChargeItem& item) {
    const auto limits = item.limits();
    return copy.name == item.policy->name &&
           std::equal(copy.limits.begin(), copy.limits.end(), limits.begin(), limits.end(),
                      [](const Limit& left, const Limit& right) {
                          return left.id == right.id && left.quota == right.quota &&
                                 left.burst == right.burst && left.max_delay == right.max_delay;
                      });
}

// The first portion that began at `began` or later.
auto first_from(std::vector<Portion>& portions, Micros began) {
    return std::lower_bound(
        portions.begin(), portions.end(), began,
        [](const Portion& portion, Micros from) { return portion.began < from; });
}

// The portion that units taken at `at` are in; portions.end() if there is none.
auto portion_at(std::vector<Portion>& portions, const Limit& limit, Micros at) {
    if (limit.opens_itself()) {
        const auto later = first_from(portions, at + Micros{1});
        if (later == portions.begin()) return portions.end();
        return std::prev(later)->began + limit::span_of(limit) > at ? std::prev(later)
                                                                    : portions.end();
    }
    if (limit.follows_calendar()) {
        const limit::Period period = limit::period_at(limit.anchor, at);
        const auto found = first_from(portions, period.begins);
        return found != portions.end() && found->began < period.ends ? found : portions.end();
    }
    const Micros began = at - at % limit.precision;
    const auto found = first_from(portions, began);
    return found != portions.end() && found->began == began ? found : portions.end();
}

void forget_the_oldest(std::vector<Portion>& portions, const Limit& limit, Micros now) {
    const auto counts = first_from(portions, now - limit::span_of(limit) + Micros{1});
    const auto most = static_cast<std::ptrdiff_t>(limit::marks_max(limit)) + 1;
    const auto kept = std::min<std::ptrdiff_t>(portions.end() - counts, most);
    portions.erase(portions.begin(), portions.end() - kept);
}

void count_in_window(OfLimit& taken, const Limit& limit, Micros at, std::int64_t units) {
    auto portion = portion_at(taken.portions, limit, at);
    if (portion == taken.portions.end()) {
        const Micros began = limit.is_on_grid() ? at - at % limit.precision : at;
        taken.portions.insert(first_from(taken.portions, began), {began, units});
        forget_the_oldest(taken.portions, limit, taken.portions.back().began);
        return;
    }
    if (limit.follows_calendar()) portion->began = std::max(portion->began, at);
    portion->units = std::min(portion->units + units, limit::kQuotaMax);
}

void count_in_bucket(OfLimit& taken, const Limit& limit, Micros at, std::int64_t units) {
    if (taken.units == 0) taken.first = at;
    taken.units = std::min(taken.units + units, limit::kQuotaMax);
    limit::take(taken.bucket, limit, at, units);
}

// Joins what was taken at first with what came after it.
void join_buckets(OfLimit& earlier, const Limit& limit, const OfLimit& later) {
    if (later.units == 0) return;
    const Micros first = earlier.units == 0 ? later.first : earlier.first;
    count_in_bucket(earlier, limit, later.first, later.units);
    earlier.first = first;
    const auto end_of = [](const limit::Bucket& bucket) {
        return std::pair(bucket.tat_us, bucket.parts);
    };
    if (end_of(earlier.bucket) < end_of(later.bucket)) earlier.bucket = later.bucket;
}

Micros end_of(const OfLimit& taken, const Limit& limit) {
    if (!limit.is_bucket()) {
        return taken.portions.empty() ? Micros{0}
                                      : limit::end_for(limit, taken.portions.back().began);
    }
    if (taken.units == 0) return Micros{0};
    const Micros full{limit::time_for(limit, limit.burst).us};
    return std::max(Micros{taken.bucket.tat_us}, taken.first + full) + Micros{1};
}

void give_back_to(OfLimit& taken, const Limit& limit, std::int64_t units, Micros at, Micros now) {
    if (limit.is_bucket()) {
        const limit::Bucket before = taken.bucket;
        limit::give_back(taken.bucket, limit, at, units, now);
        const bool gone =
            taken.bucket.tat_us != before.tat_us || taken.bucket.parts != before.parts;
        if (gone) taken.units = std::max<std::int64_t>(0, taken.units - units);
        return;
    }
    const auto portion = portion_at(taken.portions, limit, at);
    if (portion == taken.portions.end()) return;
    portion->units -= std::min(units, portion->units);
    if (portion->units == 0) taken.portions.erase(portion);
}

}  // namespace

double LocalTaken::weight() const {
    double heaviest = 0;
    for (std::size_t k = 0; k < limits.size(); ++k) {
        std::int64_t units = limits[k].units;
        for (const Portion& portion : limits[k].portions) units += portion.units;
        const std::int64_t quota = std::max<std::int64_t>(1, policy->limits[k].quota);
        const double share =
            static_cast<double>(std::min(units, quota)) / static_cast<double>(quota);
        heaviest =
            std::max(heaviest, share * static_cast<double>(policy->limits[k].duration.count()));
    }
    return heaviest;
}

std::size_t LocalTaken::portions() const {
    std::size_t count = 0;
    for (const OfLimit& one : limits) count += one.portions.size();
    return count;
}

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

std::size_t LocalLedger::take(const limit::Charge& charge, const limit::Verdict& verdict) {
    if (charge.cost == 0) return 0;
    const Micros now = verdict.receipt.at;
    latest_ = std::max(latest_, now);
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
            if (is_noted(limits[k])) count(taken, k, now, charge.cost);
        }
        portions_ = portions_ + taken.portions() - before;
    }
    return forgotten + make_room(0);
}

void LocalLedger::give_back(const limit::Refund& refund, Micros now) {
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
            give_back_to(taken->limits[k], limits[k], refund.charge.cost, refund.receipt->at, now);
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
        // It is of later.
        const LocalTaken later = remove(there->second);
        for (std::size_t k = 0; k < later.limits.size(); ++k) {
            const Limit& limit = taken.policy->limits[k];
            if (limit.is_bucket()) join_buckets(taken.limits[k], limit, later.limits[k]);
            for (const Portion& portion : later.limits[k].portions) {
                count_in_window(taken.limits[k], limit, portion.began, portion.units);
            }
        }
        taken.ends = Micros{0};
        for (std::size_t k = 0; k < later.limits.size(); ++k) {
            taken.ends = std::max(taken.ends, end_of(taken.limits[k], taken.policy->limits[k]));
        }
    }
    keep(std::move(taken));
    return forgotten;
}

// Limits are copied once for all who are counted by them.
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

// A flood of new names pushes out itself, not those near their limit.
std::size_t LocalLedger::make_room(std::size_t names) {
    std::size_t forgotten = 0;
    while (!kept_.empty() &&
           (kept_.size() + names > options_.identifiers_max || portions_ > options_.portions_max)) {
        std::size_t least = 0;
        double least_weight = -1;
        for (std::size_t sample = 0; sample < kSamples; ++sample) {
            // The newest is among them, and goes before those that are as heavy: a flood of names
            // pushes out itself.
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

void LocalLedger::count(LocalTaken& taken, std::size_t place, Micros at, std::int64_t units) {
    const Limit& limit = taken.policy->limits[place];
    OfLimit& of_limit = taken.limits[place];
    if (limit.is_bucket()) {
        count_in_bucket(of_limit, limit, at, units);
    } else {
        count_in_window(of_limit, limit, at, units);
    }
    taken.ends = std::max(taken.ends, end_of(of_limit, limit));
}

}  // namespace tidegate::store

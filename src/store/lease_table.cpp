#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "limit/window.hpp"
#include "store/leases.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using limit::Limit;
using limit::Micros;

constexpr std::int64_t kMillion = 1'000'000;
// Clocks of two machines that follow NTP differ by less in speed: a thousandth.
constexpr std::int64_t kSpeedApart = 1'000;
// A batch is for so many times the units of the last one at most, if that was spent too early.
constexpr double kGrowth = 8;

// After how long a sub-bucket of one of the limits has ended, if none begins anew earlier.
Micros interval_of(std::span<const Limit> limits) {
    Micros shortest = LeaseTable::kLongest;
    for (const Limit& limit : limits) shortest = std::min(shortest, limit.precision);
    return shortest;
}

// How long units count that were taken and not used; 0 where that is too long to wait for it.
Micros brief_span_of(std::span<const Limit> limits) {
    Micros longest{0};
    for (const Limit& limit : limits) {
        longest = std::max(longest, limit::span_of(limit));
    }
    return longest <= LeaseTable::kBriefMax ? longest : Micros{0};
}

}  // namespace

Micros left_of_sub_bucket(const Limit& limit, Micros at, const limit::LimitVerdict& told) {
    // The whole window is one sub-bucket, and `told` says when it ends.
    if (limit.frees_all_at_once()) return told.next_unit;
    return limit.precision - at % limit.precision;
}

std::int64_t most_leased(const ChargeItem& item, std::int64_t threads) {
    __extension__ using Wide = __int128;
    std::int64_t most = limit::kQuotaMax;
    for (const Limit& limit : item.limits()) {
        const Wide slack = Wide{limit.quota} * item.policy->lease_slack / kMillion;
        most = std::min(most, static_cast<std::int64_t>(slack / threads));
    }
    return most;
}

bool Lease::is_of(const ChargeItem& item,
                  const std::shared_ptr<const config::Config>& config) const {
    return item_.policy == item.policy && item_.tier == item.tier &&
           item_.identifier == item.identifier && !config_.owner_before(config) &&
           !config.owner_before(config_);
}

void Lease::append_verdict(SteadyTime now, std::vector<limit::LimitVerdict>& out) const {
    const auto passed = std::chrono::duration_cast<Micros>(now - told_at_);
    for (limit::LimitVerdict one : told_) {
        one.remaining += left_;
        if (one.next_unit != limit::kNever) {
            one.next_unit = std::max(Micros{1}, one.next_unit - passed);
        }
        out.push_back(one);
    }
}

Lease::Met Lease::faded(Met met, std::int64_t intervals) {
    for (; intervals > 0 && met.times > 0; --intervals) {
        met.times -= (met.times + 3) / 4;
        met.units -= (met.units + 3) / 4;
    }
    return met.times > 0 ? met : Met{};
}

Lease::Met Lease::usual_at(std::int64_t interval) const {
    if (interval <= interval_at_) return usual_;
    Met last = now_;
    if (usual_.times > 0) {
        const Met before = faded(usual_, 1);
        last = {std::max(now_.times, before.times), before.units + (now_.units + 3) / 4};
    }
    return faded(last, interval - interval_at_ - 1);
}

bool Lease::is_hot(std::int64_t interval) const {
    return usual_at(interval).times >= LeaseTable::kMetMin ||
           (interval <= interval_at_ && now_.times > LeaseTable::kSmall);
}

Lease* LeaseTable::meet(const ChargeItem& item, std::int64_t cost,
                        const std::shared_ptr<const config::Config>& config, SteadyTime now) {
    Lease* const lease = find_or_place(item, config, now);
    if (lease == nullptr) return nullptr;
    const std::int64_t at = now.time_since_epoch() / lease->interval_;
    if (at != lease->interval_at_) {
        lease->usual_ = lease->usual_at(at);
        lease->now_ = {};
        lease->interval_at_ = at;
    }
    ++lease->now_.times;
    lease->now_.units += std::min<std::int64_t>(cost, limit::kQuotaMax);
    return lease;
}

Lease* LeaseTable::find(const ChargeItem& item,
                        const std::shared_ptr<const config::Config>& config) {
    if (leases_.empty()) return nullptr;
    const std::size_t place = place_of(item);
    for (Lease* const lease : {&leases_[place], &leases_[place ^ 1]}) {
        if (lease->is_of(item, config)) return lease;
    }
    return nullptr;
}

std::size_t LeaseTable::place_of(const ChargeItem& item) const {
    const std::size_t hash = std::hash<std::string_view>{}(item.identifier) +
                             std::hash<const void*>{}(item.policy) / alignof(limit::Policy);
    return hash & (places_ - 1);
}

// Two places for each key. A key that has a batch keeps its place, and so does one that is met
// often; of the others the one that was not met for longer goes.
Lease* LeaseTable::find_or_place(const ChargeItem& item,
                                 const std::shared_ptr<const config::Config>& config,
                                 SteadyTime now) {
    if (leases_.empty()) leases_.resize(places_);
    const std::size_t place = place_of(item);
    Lease& first = leases_[place];
    if (first.is_of(item, config)) return &first;
    Lease& second = leases_[place ^ 1];
    if (second.is_of(item, config)) return &second;
    const auto can_go = [now](const Lease& lease) {
        if (lease.item_.policy == nullptr) return true;
        if (lease.is_asked_ || lease.is_live_) return false;
        return !lease.is_hot(now.time_since_epoch() / lease.interval_);
    };
    const auto met_at = [](const Lease& lease) { return lease.interval_at_ * lease.interval_; };
    const bool first_can = can_go(first);
    const bool second_can = can_go(second);
    if (!first_can && !second_can) return nullptr;
    Lease& goes = !second_can || (first_can && met_at(first) <= met_at(second)) ? first : second;
    begin(goes, item, config);
    return &goes;
}

// The number of the last batch stays: what was spent of it never goes back to a later one. Units
// that the former key keeps go back, as nothing would count them as held any more.
void LeaseTable::begin(Lease& lease, const ChargeItem& item,
                       const std::shared_ptr<const config::Config>& config) {
    give_back_kept(lease, limit::kQuotaMax);
    forget_owner(lease, false);
    lease.config_ = config;
    lease.identifier_ = item.identifier;
    lease.item_ = {item.policy, lease.identifier_, item.tier, item.of_client};
    lease.interval_ = interval_of(item.limits());
    lease.interval_at_ = 0;
    lease.now_ = lease.usual_ = {};
    lease.quiet_until_ = {};
    lease.vain_ = 0;
    lease.brief_span_ = brief_span_of(item.limits());
}

void LeaseTable::unspend(Lease& lease, Lease::Number batch, std::int64_t cost,
                         const ChargeItem& item, const limit::Receipt& receipt, SteadyTime now) {
    if (cost == 0) return;
    if (lease.is_live_ && lease.batch_ == batch && now < lease.ends_) {
        lease.left_ += cost;
    } else {
        give_back_(item, cost, receipt);
    }
}

namespace {

std::int64_t root_of(std::int64_t number) {
    return static_cast<std::int64_t>(std::sqrt(static_cast<double>(number)));
}

}  // namespace

std::int64_t LeaseTable::batch_for(const Lease& lease, std::int64_t most, SteadyTime now) {
    std::int64_t expected = std::max({kSmall, lease.usual_.units, lease.now_.units});
    const bool is_brief = lease.brief_span_.count() > 0;
    if (now < lease.ends_) {
        // Its batch is spent: as many a second may follow, if that is more than usual. Brief
        // windows do not give back what is too much, so they expect half of it.
        const auto rest = static_cast<double>((lease.ends_ - now).count());
        const auto took = std::max(1.0, static_cast<double>((now - lease.asked_at_).count()));
        const double usual =
            static_cast<double>(expected) * rest / static_cast<double>(lease.interval_.count());
        const double as_now =
            static_cast<double>(lease.asked_) *
            (is_brief ? std::min(1.0, rest / (2 * took)) : std::min(kGrowth, rest / took));
        expected = std::max(kSmall, static_cast<std::int64_t>(std::max(usual, as_now)));
    }
    if (!is_brief) return expected + expected / 2;
    const std::int64_t in_window = std::max<std::int64_t>(1, lease.brief_span_ / lease.interval_);
    const std::int64_t unused = std::min(expected / 2, 2 * most / in_window);
    return expected + std::max(unused, root_of(2 * expected));
}

std::int64_t LeaseTable::wanted(Lease& lease, std::int64_t cost, std::int64_t threads,
                                SteadyTime now) {
    use_threads(threads, now);
    if (lease.is_live_ && now >= lease.ends_) end_by_time(lease, now);
    if (lease.is_asked_ || now < lease.quiet_until_ || threads < 1) return 0;
    if (!lease.is_hot(lease.interval_at_)) return 0;
    const std::int64_t most =
        most_leased(lease.item_, threads_) - kept_of(lease, now) - held_by_other_tier(lease, now);
    // A batch that cannot serve such a request leaves the present one alone.
    if (cost > most) return 0;
    const std::int64_t units = std::min(most, std::max(cost, batch_for(lease, most, now)));
    if (units < 2) return 0;
    end(lease);
    return units;
}

void LeaseTable::asked(Lease& lease, std::int64_t units, std::shared_ptr<const void> owner,
                       SteadyTime now) {
    assert(!lease.is_asked_ && units > 0);
    lease.is_asked_ = true;
    lease.is_dropped_ = false;
    lease.asked_at_ = now;
    lease.asked_ = units;
    lease.promised_ = 0;
    lease.owner_ = std::move(owner);
}

bool LeaseTable::promise(Lease& lease, std::int64_t cost) {
    if (!lease.is_asked_ || lease.is_dropped_ || cost > lease.asked_ - lease.promised_)
        return false;
    lease.promised_ += cost;
    return true;
}

bool LeaseTable::answered(Lease& lease, const limit::Verdict& verdict, SteadyTime now) {
    assert(lease.is_asked_);
    lease.is_asked_ = false;
    const auto limits = lease.item_.limits();
    Micros lasts = kLongest;
    for (std::size_t i = 0; i < limits.size(); ++i) {
        lasts =
            std::min(lasts, left_of_sub_bucket(limits[i], verdict.receipt.at, verdict.limits[i]));
    }
    const SteadyTime ends = lease.asked_at_ + (lasts - lasts / kSpeedApart - Micros{1});
    const bool is_dropped = std::exchange(lease.is_dropped_, false);
    if (!verdict.admitted) {
        // Without units the window may have no sub-bucket at all: a pause it is, in any case.
        lease.quiet_until_ = std::max(ends, lease.asked_at_ + interval_of(limits));
    } else if (is_dropped || now >= ends) {
        if (is_dropped || !keep(lease, lease.asked_, verdict.limits, verdict.receipt, now)) {
            give_back_(lease.item_, lease.asked_, verdict.receipt);
        }
        const bool is_slow = 2 * (now - lease.asked_at_) >= lease.interval_;
        if (is_slow && !is_dropped) {
            const auto pause = lease.interval_ * (std::int64_t{1} << std::min(lease.vain_++, 20));
            lease.quiet_until_ = now + std::min<std::chrono::nanoseconds>(kLongest, pause);
        }
    } else {
        lease.vain_ = 0;
        // The former batch may be of another sub-bucket.
        if (lease.is_live_) end(lease);
        lease.is_live_ = true;
        live_.push_back(&lease);
        lease.batch_ = ++last_batch_;
        lease.left_ = lease.asked_;
        lease.ends_ = ends;
        lease.receipt_ = verdict.receipt;
        lease.told_at_ = lease.asked_at_;
        lease.told_ = verdict.limits;
        return true;
    }
    forget_owner(lease, is_dropped);
    return false;
}

void LeaseTable::failed(Lease& lease, SteadyTime now) {
    assert(lease.is_asked_);
    lease.is_asked_ = false;
    lease.quiet_until_ = now + kLongest;
    forget_owner(lease, std::exchange(lease.is_dropped_, false));
}

// Without an owner the policy may go with its configuration.
void LeaseTable::forget_owner(Lease& lease, bool is_dropped) {
    if (lease.is_live_ || lease.is_asked_ || !lease.kept_.empty()) return;
    if (is_dropped) forget_key(lease);
    lease.owner_.reset();
}

void LeaseTable::end_batches(SteadyTime now) {
    for (std::size_t i = live_.size(); i-- > 0;) {
        if (now >= live_[i]->ends_) end_by_time(*live_[i], now);
    }
    for (std::size_t i = keeping_.size(); i-- > 0;) {
        Lease& lease = *keeping_[i];
        if (kept_of(lease, now) > 0) continue;
        lease.is_keeping_ = false;
        keeping_.erase(keeping_.begin() + static_cast<std::ptrdiff_t>(i));
        forget_owner(lease, false);
    }
}

void LeaseTable::use_threads(std::int64_t threads, SteadyTime now) {
    if (threads < 1 || std::exchange(threads_, threads) == threads) return;
    for (Lease* const lease : keeping_) {
        const std::int64_t kept = kept_of(*lease, now);
        if (kept == 0) continue;
        const std::int64_t others = held(*lease) + held_by_other_tier(*lease, now);
        give_back_kept(*lease, kept + others - most_leased(lease->item_, threads_));
    }
}

// An identifier has one state in the store, whatever its tier. Both leases are in its two places;
// a third tier has none.
Lease* LeaseTable::of_other_tier(const Lease& lease) {
    const auto place = static_cast<std::size_t>(&lease - leases_.data());
    Lease& other = leases_[place ^ 1];
    const bool is_same = other.item_.policy == lease.item_.policy &&
                         other.item_.identifier == lease.item_.identifier;
    return is_same ? &other : nullptr;
}

std::int64_t LeaseTable::held(const Lease& lease) {
    return lease.left_ + (lease.is_asked_ ? lease.asked_ : 0);
}

std::int64_t LeaseTable::held_by_other_tier(const Lease& lease, SteadyTime now) {
    Lease* const other = of_other_tier(lease);
    if (other == nullptr) return 0;
    return held(*other) + kept_of(*other, now);
}

std::int64_t LeaseTable::kept_of(Lease& lease, SteadyTime now) {
    std::vector<Lease::Kept>& kept = lease.kept_;
    const auto counts = [now](const Lease::Kept& one) { return one.until > now; };
    const auto add = [](std::int64_t sum, const Lease::Kept& one) { return sum + one.units; };
    const auto oldest = std::find_if(kept.begin(), kept.end(), counts);
    expired_ += std::accumulate(kept.begin(), oldest, std::int64_t{0}, add);
    kept.erase(kept.begin(), oldest);
    return std::accumulate(kept.begin(), kept.end(), std::int64_t{0}, add);
}

// Gives back so many kept units, or all, the newest first: they would count for longest.
void LeaseTable::give_back_kept(Lease& lease, std::int64_t units) {
    while (units > 0 && !lease.kept_.empty()) {
        Lease::Kept& newest = lease.kept_.back();
        const std::int64_t some = std::min(units, newest.units);
        give_back_(lease.item_, some, {newest.at, {newest.generation}});
        units -= some;
        newest.units -= some;
        if (newest.units == 0) lease.kept_.pop_back();
    }
}

// Whether so many units, that Redis has counted, are not given back. Units that others need are.
bool LeaseTable::keep(Lease& lease, std::int64_t units,
                      const std::vector<limit::LimitVerdict>& told, const limit::Receipt& receipt,
                      SteadyTime now) {
    if (lease.brief_span_.count() == 0 || units == 0) return false;
    const auto limits = lease.item_.limits();
    for (std::size_t i = 0; i < limits.size(); ++i) {
        if (told[i].remaining < limits[i].quota / 2) return false;
    }
    const std::int64_t others = kept_of(lease, now) + held_by_other_tier(lease, now);
    // Units that are kept must not cut the batches that follow: more of these would be needed.
    const std::int64_t next = std::max(lease.asked_, lease.usual_.units);
    if (others + units + next > most_leased(lease.item_, threads_)) return false;
    if (lease.kept_.size() >= kKeptMax) return false;
    // Its sub-bucket has ended.
    lease.kept_.push_back(
        {now + lease.brief_span_, units, receipt.at, receipt.generations.front()});
    if (!std::exchange(lease.is_keeping_, true)) keeping_.push_back(&lease);
    return true;
}

void LeaseTable::end_by_time(Lease& lease, SteadyTime now) {
    if (keep(lease, lease.left_, lease.told_, lease.receipt_, now)) lease.left_ = 0;
    end(lease);
}

// Also where nothing is left: the key can lose its place then.
void LeaseTable::end(Lease& lease) {
    if (!std::exchange(lease.is_live_, false)) return;
    live_.erase(std::find(live_.begin(), live_.end(), &lease));
    const std::int64_t left = std::exchange(lease.left_, 0);
    lease.ends_ = {};
    if (left > 0) give_back_(lease.item_, left, lease.receipt_);
    forget_owner(lease, false);
}

// A key that waits for an answer keeps its place until that has come.
void LeaseTable::drop(Lease& lease) {
    give_back_kept(lease, limit::kQuotaMax);
    end(lease);
    forget_owner(lease, false);
    lease.is_dropped_ = lease.is_asked_;
    lease.now_ = lease.usual_ = {};
    if (!lease.is_asked_) forget_key(lease);
}

void LeaseTable::forget_key(Lease& lease) {
    lease.item_ = {nullptr, {}};
    lease.config_.reset();
}

void LeaseTable::drop_all() {
    for (Lease& lease : leases_) drop(lease);
}

void LeaseTable::drop(std::string_view identifier) {
    for (Lease& lease : leases_) {
        if (lease.item_.policy != nullptr && lease.item_.identifier == identifier) drop(lease);
    }
}

std::int64_t LeaseTable::units() const {
    std::int64_t units = 0;
    for (const Lease* lease : live_) units += lease->left_;
    return units;
}

std::int64_t LeaseTable::units_of(const ChargeItem& item) const {
    std::int64_t units = 0;
    for (const Lease* lease : live_) {
        const ChargeItem& known = lease->item_;
        if (known.identifier == item.identifier && known.policy->name == item.policy->name) {
            units += lease->left_;
        }
    }
    return units;
}

}  // namespace tidegate::store

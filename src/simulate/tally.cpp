#include "simulate/tally.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "ask/ruleset.hpp"

namespace tidegate::simulate {

namespace {

constexpr Micros kMinute = std::chrono::minutes{1};
constexpr std::size_t kTextChunk = 1U << 16;

// The limit without a quota: it counts in the same windows, or leaks as fast.
limit::Limit without_quota(const limit::Limit& of) {
    limit::Limit limit = of;
    if (of.traits().has(limit::kBurst)) {
        // Microseconds that a full bucket takes to empty stay exact.
        constexpr double kLongest = static_cast<double>(std::int64_t{1} << 50);
        const double emission =
            static_cast<double>(of.duration.count()) / static_cast<double>(of.quota);
        const double most = std::min(kLongest / emission, double{limit::kQuotaMax});
        limit.burst = std::max(of.burst, static_cast<std::int64_t>(most));
        limit.max_delay = Micros{std::int64_t{1} << 50};
        return limit;
    }
    limit.quota = of.is_wide() ? limit::kMoneyMax : of.traits().quota_max;
    return limit;
}

// Whether what the request takes stays taken once its answer has `status`; 0: it is not known.
bool keeps(const limit::Limit& limit, int status) {
    if (limit.count != limit::Count::by_status || status == 0) return true;
    return std::find(limit.statuses.begin(), limit.statuses.end(), status) != limit.statuses.end();
}

}  // namespace

void Timeline::add(Micros at, bool is_limited) {
    if (buckets_.empty()) begin_ = at / width_ * width_;
    if (at < begin_) at = begin_;
    auto position = static_cast<std::size_t>((at - begin_) / width_);
    while (position >= kBuckets) {
        for (std::size_t i = 0; i < buckets_.size(); i += 2) {
            Bucket both = buckets_[i];
            if (i + 1 < buckets_.size()) {
                both.requests += buckets_[i + 1].requests;
                both.limited += buckets_[i + 1].limited;
            }
            buckets_[i / 2] = both;
        }
        buckets_.resize((buckets_.size() + 1) / 2);
        width_ *= 2;
        position = static_cast<std::size_t>((at - begin_) / width_);
    }
    if (position >= buckets_.size()) buckets_.resize(position + 1);
    ++buckets_[position].requests;
    if (is_limited) ++buckets_[position].limited;
}

Tally::Tally(const config::Config& config, std::size_t clients_max, std::uint64_t secret)
    : clients_max_(clients_max), names_(0, NameHash{secret | 1}) {
    for (const config::LimitList& list : config.limit_lists) {
        ListTally& tally = lists_.emplace_back();
        for (const limit::Limit& limit : list.limits()) {
            LimitTally& one = tally.limits.emplace_back();
            one.limit = &limit;
            one.demand = without_quota(limit);
            one.has_peaks = !limit.traits().has_leases && !limit.traits().has_moments;
        }
    }
}

std::int64_t Tally::size_of(const limit::Limit& limit) {
    return limit.traits().has(limit::kBurst) ? limit.burst : limit.quota;
}

std::string_view Tally::keep(std::string_view text) {
    if (text_left_ < text.size()) {
        text_left_ = std::max(kTextChunk, text.size());
        texts_.push_back(std::make_unique<char[]>(text_left_));
        text_at_ = texts_.back().get();
    }
    char* const to = text_at_;
    std::copy(text.begin(), text.end(), to);
    text_at_ += text.size();
    text_left_ -= text.size();
    return {to, text.size()};
}

const Tally::Client* Tally::find(std::uint32_t list, std::string_view identifier) {
    const auto found = names_.find(Name{list, identifier});
    if (found != names_.end()) return &clients_[found->second];
    if (clients_.size() >= clients_max_) return nullptr;
    const std::string_view kept = keep(identifier);
    const auto position = static_cast<std::uint32_t>(clients_.size());
    clients_.push_back({kept, counts_.size()});
    for (const LimitTally& limit : lists_[list].limits) {
        counts_.push_back({store::Record(limit.demand)});
    }
    lists_[list].clients.push_back(position);
    names_.emplace(Name{list, kept}, position);
    return &clients_.back();
}

void Tally::add(const limit::Charge& charge, const limit::ChargeItem& item, Micros now,
                std::span<const limit::LimitVerdict> verdicts, int status) {
    const auto list = static_cast<std::uint32_t>(ask::list_of(item));
    const Client* const client = find(list, item.identifier);
    if (client == nullptr) ++untracked_;
    limit::Asked asked{charge, now};
    asked.cost = charge.cost_of(item);
    auto& limits = lists_[list].limits;
    for (std::size_t i = 0; i < limits.size(); ++i) {
        LimitTally& tally = limits[i];
        if (verdicts[i].denied) {
            if (tally.limited++ == 0) tally.first = now;
            tally.last = now;
            const Micros minute = now / kMinute * kMinute;
            if (std::exchange(tally.minute, minute) != minute) tally.minute_limited = 0;
            if (++tally.minute_limited > tally.worst_limited) {
                tally.worst_limited = tally.minute_limited;
                tally.worst = minute;
            }
        }
        if (client == nullptr) continue;
        ClientCount& count = counts_[client->first + i];
        if (verdicts[i].denied) ++count.limited;
        if (!tally.has_peaks || asked.cost == 0) continue;
        const std::int64_t units = count.demand.with([&](auto& kind) {
            const auto standing = kind.look(tally.demand, asked);
            const std::int64_t left =
                kind.verdict_of(tally.demand, asked, standing, asked.cost).remaining;
            if (keeps(tally.demand, status)) {
                kind.reserve(tally.demand, asked, standing);
                if (kind.passes(tally.demand, asked, standing)) {
                    kind.take(tally.demand, asked, standing);
                }
            }
            return size_of(tally.demand) - left;
        });
        count.peak = std::max(count.peak, units);
    }
}

std::vector<ClientView> Tally::views(std::size_t list, std::size_t limit) const {
    std::vector<ClientView> views;
    views.reserve(lists_[list].clients.size());
    for (const std::uint32_t position : lists_[list].clients) {
        const Client& client = clients_[position];
        const ClientCount& count = counts_[client.first + limit];
        views.push_back({client.identifier, count.peak, count.limited});
    }
    return views;
}

}  // namespace tidegate::simulate

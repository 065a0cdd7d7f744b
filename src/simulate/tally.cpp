#include "simulate/tally.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <new>
#include <utility>

#include "ask/ruleset.hpp"
#include "limit/bytes.hpp"

namespace tidegate::simulate {

namespace {

constexpr Micros kMinute = std::chrono::minutes{1};
constexpr std::size_t kChunkBytes = 1U << 18;

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

void ClientTable::add(std::uint64_t hash, Client& client) {
    const auto put = [this](const Place& place) {
        std::size_t at = place.hash & mask();
        while (places_[at].client != nullptr) at = (at + 1) & mask();
        places_[at] = place;
    };
    constexpr std::size_t kFirst = 256;
    if (2 * (count_ + 1) > places_.size()) {
        const std::vector<Place> before =
            std::exchange(places_, std::vector<Place>(std::max(kFirst, 2 * places_.size())));
        for (const Place& place : before) {
            if (place.client != nullptr) put(place);
        }
    }
    ++count_;
    put({hash, &client});
}

Tally::Tally(const config::Config& config, std::size_t clients_max, std::uint64_t secret)
    : clients_max_(clients_max), secret_(secret | 1) {
    for (const config::LimitList& list : config.limit_lists) {
        ListTally& tally = lists_.emplace_back();
        tally.needs_demand = list.policy->soft;
        tally.is_of_candidate = list.policy->is_candidate();
        for (const limit::Limit& limit : list.limits()) {
            LimitTally& one = tally.limits.emplace_back();
            one.limit = &limit;
            one.demand = without_quota(limit);
            one.has_peaks = !limit.traits().has_slots && !limit.traits().has_moments;
            tally.needs_demand = tally.needs_demand || limit.traits().queues;
        }
    }
}

std::int64_t Tally::size_of(const limit::Limit& limit) {
    return limit.traits().has(limit::kBurst) ? limit.burst : limit.quota;
}

// Null: there are as many already as there may be.
Client* Tally::find(ListTally& list, std::uint64_t hash, std::string_view identifier) {
    if (Client* const found = list.by_identifier.find(hash, identifier)) return found;
    if (client_count_ >= clients_max_) return nullptr;
    const std::size_t limits = list.limits.size();
    constexpr std::size_t kAlign = alignof(std::max_align_t);
    const std::size_t bytes =
        (sizeof(Client) + limits * sizeof(ClientCount) + identifier.size() + kAlign - 1) / kAlign *
        kAlign;
    if (chunk_left_ < bytes) {
        chunk_left_ = std::max(kChunkBytes, bytes);
        chunks_.push_back(std::make_unique<std::max_align_t[]>(
            (chunk_left_ + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t)));
        chunk_at_ = reinterpret_cast<char*>(chunks_.back().get());
    }
    auto* const client = new (chunk_at_)
        Client{static_cast<std::uint32_t>(identifier.size()), static_cast<std::uint32_t>(limits)};
    for (std::size_t i = 0; i < limits; ++i) new (client->counts() + i) ClientCount;
    std::copy(identifier.begin(), identifier.end(),
              reinterpret_cast<char*>(client->counts() + limits));
    chunk_at_ += bytes;
    chunk_left_ -= bytes;
    ++client_count_;
    if (list.is_of_candidate) ++of_candidates_;
    list.clients.push_back(client);
    list.by_identifier.add(hash, *client);
    return client;
}

const ClientTable& Tally::table_of(const limit::ChargeItem& item) const {
    return lists_[ask::list_of(item)].by_identifier;
}

// Begins with what the store counts, which is what the client has asked for: this request is the
// first of it that was not taken.
void Tally::begin_demand(const Decided& decided, const limit::ChargeItem& item, ListTally& list,
                         Client& client) {
    client.demand = demands_.size() + 1;
    for (const LimitTally& tally : list.limits) demands_.emplace_back(tally.demand);
    if (list.needs_demand) return;
    const std::string counts = decided.store.counts_of(item);
    limit::CountsReader in(counts);
    while (!in.is_at_end() && !in.is_broken()) {
        auto record = store::Record::load(in);
        if (!record) return;
        for (std::size_t i = 0; i < list.limits.size(); ++i) {
            if (!record->counts(list.limits[i].demand)) continue;
            demands_[client.demand - 1 + i] = std::move(*record);
            break;
        }
    }
}

void Tally::add_demand(const Decided& decided, const limit::ChargeItem& item, ListTally& list,
                       Client& client, bool begins) {
    limit::Asked asked{decided.charge, decided.now};
    asked.cost = decided.charge.cost_of(item);
    for (std::size_t i = 0; i < list.limits.size(); ++i) {
        const LimitTally& tally = list.limits[i];
        if (!tally.has_peaks) continue;
        const std::int64_t units = demands_[client.demand - 1 + i].with([&](auto& kind) {
            const auto standing = kind.look(tally.demand, asked);
            // A limit that counts denied requests has counted the one that begins the demand.
            const bool counted = begins && tally.demand.count == limit::Count::all;
            const std::int64_t taken = counted ? 0 : asked.cost;
            const std::int64_t left =
                kind.verdict_of(tally.demand, asked, standing, taken).remaining;
            if (!counted && keeps(tally.demand, decided.status) &&
                kind.passes(tally.demand, asked, standing)) {
                kind.reserve(tally.demand, asked, standing);
                kind.take(tally.demand, asked, standing);
            }
            return size_of(tally.demand) - left;
        });
        client.counts()[i].peak = std::max(client.counts()[i].peak, units);
    }
}

void Tally::add(const Decided& decided, const limit::ChargeItem& item, std::uint64_t hash,
                std::span<const limit::LimitVerdict> verdicts) {
    ListTally& list = lists_[ask::list_of(item)];
    Client* const client = find(list, hash, item.identifier);
    if (client == nullptr) ++untracked_;
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
        if (!verdicts[i].denied) continue;
        LimitTally& tally = list.limits[i];
        if (tally.limited++ == 0) tally.first = decided.now;
        tally.last = decided.now;
        const Micros minute = decided.now / kMinute * kMinute;
        if (std::exchange(tally.minute, minute) != minute) tally.minute_limited = 0;
        if (++tally.minute_limited > tally.worst_limited) {
            tally.worst_limited = tally.minute_limited;
            tally.worst = minute;
        }
        if (client != nullptr) ++client->counts()[i].limited;
    }
    if (client == nullptr || decided.charge.cost_of(item) == 0) return;
    if (client->demand == 0) {
        if (decided.took && !list.needs_demand) {
            for (std::size_t i = 0; i < verdicts.size(); ++i) {
                std::int64_t& peak = client->counts()[i].peak;
                peak = std::max(peak, size_of(item.limits()[i]) - verdicts[i].remaining);
            }
            return;
        }
        begin_demand(decided, item, list, *client);
        return add_demand(decided, item, list, *client, !list.needs_demand);
    }
    add_demand(decided, item, list, *client, false);
}

std::vector<ClientView> Tally::views(std::size_t list, std::size_t limit) const {
    std::vector<ClientView> views;
    views.reserve(lists_[list].clients.size());
    for (const Client* const client : lists_[list].clients) {
        const ClientCount& count = client->counts()[limit];
        views.push_back({client->identifier(), count.peak, count.limited});
    }
    return views;
}

}  // namespace tidegate::simulate

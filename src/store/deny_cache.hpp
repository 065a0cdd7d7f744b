// A worker remembers denials by Redis here, and forgets them when units are given back.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "base/timestamp.hpp"
#include "limit/charge.hpp"

namespace tidegate::store {

// Identifiers to which this process has just given units back: what its workers remember of earlier
// denials of them does not hold any more. One for the process; any thread, without locks.
class FreedIdentifiers {
  public:
    using Place = std::uint16_t;

    static Place place_of(std::string_view identifier);
    void add(std::string_view identifier, SteadyTime now) { add_at(place_of(identifier), now); }
    void add_at(Place place, SteadyTime now);

    // Whether one of `items` was added at `since` or later. Identifiers share places, so it may
    // also be true where only others were added. Costs a load unless something was added since.
    bool any(std::span<const limit::ChargeItem> items, SteadyTime since) const {
        return newest_.load(std::memory_order_acquire) >= number(since) && look(items, since);
    }

  private:
    using Number = std::int64_t;
    static constexpr std::size_t kPlaces = 4'096;

    static Number number(SteadyTime time) { return time.time_since_epoch().count(); }
    bool look(std::span<const limit::ChargeItem> items, SteadyTime since) const;

    std::atomic<Number> newest_{0};
    std::array<std::atomic<Number>, kPlaces> places_{};  // the latest time of each
};

// Remembered denials: until the time that a denial names, the worker denies the same question again
// without asking Redis. So an attacker costs Redis nothing.
//
// One for each worker, one thread. Pure: time is an argument.
class DenyCache {
  public:
    struct Options {
        // Other proxies' resets, and a store that was emptied, are noticed within this.
        std::chrono::microseconds max_ttl{5'000'000};
        std::size_t entries = 100'000;  // 0: off. The oldest goes first
    };

    // `freed`, which may be null, outlives it.
    explicit DenyCache(const Options& options, const FreedIdentifiers* freed = nullptr);

    // Remembers that `charge` was denied when it was sent at `sent`: for as long as nothing but
    // time can change that. What other requests may give back, or what a denial takes, is not
    // remembered (concurrency, leaky_bucket, schedule, `count`), but for `count: all` of a fixed
    // window that is full. Policies that are not enforced do not matter: they change no answer.
    void remember(const limit::Charge& charge, const limit::Verdict& verdict, SteadyTime sent);

    // True, and the denial in `verdict`, if a charge of the same items and limits and of no higher
    // cost was denied and that still holds: no unit was given back to one of its identifiers since.
    // Where items have costs of their own, those of the items that denied matter. What others may
    // have changed meanwhile is marked so (LimitVerdict::is_current). Policies that are not
    // enforced say what they said when the charge was sent.
    bool recall(const limit::Charge& charge, SteadyTime now, limit::Verdict& verdict);

    // After a reload or a reset. What was sent before `now` is not remembered any more either: it
    // was asked under the limits of then.
    void clear(SteadyTime now);
    // The same, and other bounds hold.
    void restart(const Options& options, SteadyTime now);

    std::size_t size() const { return positions_.size(); }

  private:
    struct Denial {
        std::string name;  // the items: lists of limits and identifiers
        std::uint64_t hash = 0;
        std::int64_t cost = 0;
        // By item, where items had costs of their own: that of an item that denied, else 0.
        std::vector<std::int64_t> costs;
        SteadyTime sent;
        SteadyTime until;
        limit::Verdict verdict;
    };

    static bool costs_less(const limit::Charge& charge, const Denial& denial);
    std::uint64_t name_of(const limit::Charge& charge);
    Denial& slot_for(std::uint64_t hash);

    Options options_;
    const FreedIdentifiers* freed_;
    SteadyTime cleared_;
    std::uint64_t secret_;  // identifiers come from clients
    std::string name_;      // scratch: of the charge that is looked at
    std::vector<Denial> ring_;
    std::size_t next_ = 0;  // of the ring: the oldest once it is full
    boost::unordered_flat_map<std::uint64_t, std::uint32_t> positions_;  // in the ring, by hash
};

}  // namespace tidegate::store

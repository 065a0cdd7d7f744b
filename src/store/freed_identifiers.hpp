// Identifiers to which this process has just given units back: what its workers remember of earlier
// denials of them does not hold any more. Of the process; any thread, without locks.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "limit/charge.hpp"

namespace tidegate::store {

class FreedIdentifiers {
  public:
    using Time = std::chrono::steady_clock::time_point;

    void add(std::string_view identifier, Time now);

    // Whether one of `items` was added at `since` or later. Identifiers share places, so it may
    // also be true where only others were added. Costs a load unless something was added since.
    bool any(std::span<const limit::ChargeItem> items, Time since) const {
        return newest_.load(std::memory_order_acquire) >= number(since) && look(items, since);
    }

  private:
    using Number = std::int64_t;
    static constexpr std::size_t kPlaces = 4'096;

    static Number number(Time time) { return time.time_since_epoch().count(); }
    static std::size_t place_of(std::string_view identifier);
    bool look(std::span<const limit::ChargeItem> items, Time since) const;

    std::atomic<Number> newest_{0};
    std::array<std::atomic<Number>, kPlaces> places_{};  // the latest time of each
};

}  // namespace tidegate::store

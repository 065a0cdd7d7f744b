// Addresses that may make up more than a quarter of a list: at most three can.
//
// The algorithm of Misra and Gries: three counters, and an address without a counter takes one from
// each. One pass finds every address that may be above a quarter, without a table; a second pass
// that counts them tells which are.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/ip.hpp"

namespace tidegate {

class HeavyHitters {
  public:
    void add(const IpAddress& address) {
        auto counter = find(address);
        if (counter == counters_.end()) {
            counter = std::find_if(counters_.begin(), counters_.end(),
                                   [](const Counter& other) { return other.count == 0; });
        }
        if (counter == counters_.end()) {
            for (Counter& other : counters_) --other.count;
        } else {
            counter->address = address;
            ++counter->count;
        }
    }

    bool contains(const IpAddress& address) const { return find(address) != counters_.end(); }

    std::vector<IpAddress> addresses() const {
        std::vector<IpAddress> all;
        for (const Counter& counter : counters_) {
            if (counter.count > 0) all.push_back(counter.address);
        }
        return all;
    }

    // Removes addresses for which `is_none` holds.
    template <class IsNone>
    void erase_if(IsNone is_none) {
        for (Counter& counter : counters_) {
            if (counter.count > 0 && is_none(counter.address)) counter.count = 0;
        }
    }

  private:
    struct Counter {
        IpAddress address;
        std::size_t count = 0;  // 0: of no address
    };
    using Counters = std::array<Counter, 3>;

    Counters::const_iterator find(const IpAddress& address) const {
        return std::find_if(counters_.begin(), counters_.end(), [&](const Counter& counter) {
            return counter.count > 0 && counter.address == address;
        });
    }
    Counters::iterator find(const IpAddress& address) {
        return counters_.begin() + (std::as_const(*this).find(address) - counters_.cbegin());
    }

    Counters counters_;
};

}  // namespace tidegate

// Visits the verdict of each limit of a decision.
#pragma once

#include <cstddef>

#include "store/limit_decision.hpp"

namespace tidegate::ask {

// Calls `each` with the item, the position of the limit among the item's, and its verdict; in the
// order of the verdict.
template <class F>
void for_each_limit(const store::LimitDecision& decision, F each) {
    std::size_t position = 0;
    for (const limit::ChargeItem& item : decision.decided()) {
        const std::size_t count = item.limits().size();
        for (std::size_t i = 0; i < count; ++i, ++position) {
            each(item, i, decision.verdict.limits[position]);
        }
    }
}

}  // namespace tidegate::ask

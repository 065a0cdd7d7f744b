#include "limit/charge.hpp"

#include <algorithm>

namespace tidegate::limit {

void add_back(std::int64_t cost, const Limit& limit, LimitVerdict& verdict) {
    if (limit.count == Count::all) return;
    const std::int64_t full = limit.burst > 0 ? limit.burst : limit.quota;
    verdict.remaining = std::min(full, verdict.remaining + (limit.is_concurrency() ? 1 : cost));
    if (verdict.remaining == full) verdict.next_unit = Micros{0};
}

bool Refund::concerns(const Limit& limit) const {
    switch (of) {
        case Of::status:
            return limit.count == Count::by_status && !limit.keeps(status);
        case Of::place:
            return limit.traits().queues;
        case Of::all:
            break;
    }
    // Units that denied requests took stay taken; a schedule's moments and slots have ways of their
    // own.
    return limit.count != Count::all;
}

}  // namespace tidegate::limit

#include "limit/charge.hpp"

namespace tidegate::limit {

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

#include "ask/decision.hpp"

namespace tidegate::ask {

void Decision::reset() {
    // A request with identifiers of unusual size does not keep its memory for ever.
    constexpr std::size_t kCapacityKept = 65'536;
    fault = Fault::none;
    fault_detail = {};
    route_index = telemetry::kNoRoute;
    route = nullptr;
    is_preflight = false;
    client.reset();
    chain_fault = identity::ChainFault::none;
    authentication->reset();
    user.reset();
    tier = {};
    identifiers.clear();
    if (identifiers.capacity() > kCapacityKept) identifiers.shrink_to_fit();
    spans.clear();
    charge.items.clear();
    charge.result = store::LimitDecision::Result::pending;
    charge.store_failed = charge.remembered = charge.is_partial = false;
    charge.needs_settling = charge.is_alone = false;
    charge.moment = {};
    cost_ignored.reset();
    charged_at = {};
    charge_time = {};
    ratelimit.clear();
}

}  // namespace tidegate::ask

#include "telemetry/metric_names.hpp"

namespace tidegate::telemetry {

MetricSlots NameRegistry::admit(const MetricNames& wanted) {
    MetricSlots slots;
    for (const std::string& route : wanted.routes) slots.routes_.push_back(routes.admit(route));
    for (const std::string& upstream : wanted.upstreams) {
        slots.upstreams_.push_back(upstreams.admit(upstream));
    }
    for (const auto& policy : wanted.policies) {
        slots.decisions_begin_.push_back(slots.decisions_.size());
        for (const std::string& limit : policy.limits) {
            slots.decisions_.push_back(decisions.admit({policy.policy, limit, policy.shadow}));
        }
    }
    slots.decisions_begin_.push_back(slots.decisions_.size());
    return slots;
}

}  // namespace tidegate::telemetry

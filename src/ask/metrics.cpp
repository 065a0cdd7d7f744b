#include "ask/metrics.hpp"

namespace tidegate::ask {

std::string_view to_string(CostFault fault) {
    switch (fault) {
        case CostFault::untrusted:
            return "untrusted";
        case CostFault::unreadable:
            return "unreadable";
        case CostFault::out_of_range:
            return "out_of_range";
    }
    return "";
}

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                    const telemetry::NameList<telemetry::DecisionName>& limits) {
    auto total = out.counter("tidegate_decisions_total", "What each limit answered");
    for (std::size_t slot = 0; slot < limits.size(); ++slot) {
        const telemetry::DecisionName& name = limits[slot];
        const auto add = [&](const char* outcome, telemetry::Counter DecisionCounts::*counter) {
            total.add({{"policy", name.policy}, {"limit", name.limit}, {"outcome", outcome}},
                      telemetry::sum(
                          threads, [&](const Metrics& one) -> const auto& {
                              return one.decisions_[slot].*counter;
                          }));
        };
        add(name.shadow ? "shadow_admitted" : "admitted", &DecisionCounts::admitted);
        add(name.shadow ? "shadow_denied" : "denied", &DecisionCounts::denied);
    }
    out.counter("tidegate_cost_ignored_total",
                "Costs that requests stated and Tidegate ignored, by reason")
        .add_each("reason", threads, &Metrics::costs_ignored_);
    out.counter("tidegate_forwarding_invalid_total",
                "Requests from trusted peers whose forwarding field could not be read to the "
                "client: they count as the last good address")
        .add({}, telemetry::sum(threads, &Metrics::forwarding_invalid_));
    out.counter("tidegate_forwarding_ignored_total",
                "Requests with X-Forwarded-For or Forwarded from peers that are not trusted: they "
                "count as the peer's address")
        .add({}, telemetry::sum(threads, &Metrics::forwarding_ignored_));
}

void Metrics::add_to(telemetry::LiveTotals& totals, telemetry::Threads<Metrics> threads,
                     const telemetry::LivePolicies& policies) {
    totals.add_policies(policies);
    for (const Metrics* one : threads) {
        for (std::size_t slot = 0; slot < policies.slots(); ++slot) {
            const DecisionCounts& of_thread = one->decisions_[slot];
            telemetry::LivePair& column = totals.policies[policies.column(slot)];
            column.all += of_thread.admitted.value();
            column.denied += of_thread.denied.value();
        }
    }
}

}  // namespace tidegate::ask

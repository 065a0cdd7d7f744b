#include "ask/metrics.hpp"

#include "telemetry/metric_members.hpp"

namespace tidegate::ask {

std::vector<telemetry::MetricLabel> DecisionCounts::labels() {
    return {{.name = "policy"},
            {.name = "limit"},
            {.name = "outcome",
             .values = kEnumNames<DecisionOutcome>,
             .note = "`shadow_` for policies in shadow, `soft_` for those with `mode: soft`"}};
}

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                    const telemetry::NameList<telemetry::DecisionName>& limits) {
    const auto total = out.family(decltype(decisions_)::Entry::info());
    for (std::size_t slot = 0; slot < limits.size(); ++slot) {
        const telemetry::DecisionName& name = limits[slot];
        const auto add = [&](DecisionOutcome outcome, telemetry::Counter DecisionCounts::*counter) {
            total.add({name.policy, name.limit, to_string(outcome)},
                      telemetry::sum(
                          threads, [&](const Metrics& one) -> const auto& {
                              return one.decisions_[slot].*counter;
                          }));
        };
        using enum DecisionOutcome;
        add(name.soft     ? soft_admitted
            : name.shadow ? shadow_admitted
                          : admitted,
            &DecisionCounts::admitted);
        add(name.soft ? soft_over : name.shadow ? shadow_denied : denied, &DecisionCounts::denied);
    }
    const auto costs = out.family(decltype(costs_)::Entry::info());
    for (std::size_t slot = 0; slot < limits.size(); ++slot) {
        const std::uint64_t units = telemetry::sum(
            threads, [&](const Metrics& one) -> const auto& { return one.costs_[slot]; });
        if (units > 0) costs.add({limits[slot].policy}, units);
    }
    telemetry::write_members<EngineCounters>(out, threads);
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

#include "ask/metrics.hpp"

#include <type_traits>

#include "telemetry/metric_members.hpp"

namespace tidegate::ask {

std::vector<telemetry::MetricLabel> DecisionCounts::labels() {
    return {{.name = "policy"},
            {.name = "limit"},
            {.name = "outcome",
             .values = kEnumNames<DecisionOutcome>,
             .note = "`shadow_` for policies in shadow, `soft_` for those with `mode: soft`"}};
}

std::vector<telemetry::MetricLabel> PolicyDollars::labels() {
    return {{.name = "policy"}, telemetry::label_of_models()};
}

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                    const telemetry::NameRegistry& names) {
    const auto& limits = names.decisions;
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
    write_costs(out, threads, names);
    telemetry::write_members<EngineCounters>(out, threads);
}

// Only what was counted: most policies have no cost of their own.
void Metrics::write_costs(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                          const telemetry::NameRegistry& names) {
    const auto add = [&](auto PolicyCosts::*member) {
        const auto family =
            out.family(std::remove_cvref_t<decltype(PolicyCosts().*member)>::info());
        for (std::size_t slot = 0; slot < names.decisions.size(); ++slot) {
            const std::uint64_t units = telemetry::sum(
                threads, [&](const Metrics& one) -> const auto& {
                    return one.costs_[slot].*member;
                });
            if (units > 0) family.add({names.decisions[slot].policy}, units);
        }
    };
    add(&PolicyCosts::settled);
    add(&PolicyCosts::reserved);
    constexpr double kDollar = 1'000'000;
    const auto dollars = out.family(decltype(dollars_)::Entry::info());
    for (std::size_t slot = 0; slot < names.decisions.size(); ++slot) {
        for (std::size_t model = 0; model < names.models.size(); ++model) {
            std::uint64_t millionths = 0;
            for (const Metrics* one : threads) {
                const auto* const counted = one->dollars_[slot].find(model);
                if (counted != nullptr) millionths += counted->value();
            }
            if (millionths == 0) continue;
            dollars.add({names.decisions[slot].policy, names.models[model]},
                        static_cast<double>(millionths) / kDollar);
        }
    }
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
            if (policies.column(slot) >= totals.costs.size()) continue;
            const PolicyCosts& costs = one->costs_[slot];
            telemetry::LiveCost& cost = totals.costs[policies.column(slot)];
            cost.settled += costs.settled.value();
            cost.reserved += costs.reserved.value();
        }
    }
}

}  // namespace tidegate::ask

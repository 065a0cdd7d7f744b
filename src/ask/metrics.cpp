#include "ask/metrics.hpp"

#include <algorithm>
#include <type_traits>

#include "config/config.hpp"
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

std::vector<telemetry::MetricLabel> CandidateCounts::labels() {
    return {{.name = "policy", .note = "the policy that has the candidate"},
            telemetry::label_of<RequestFate>("live"),
            telemetry::label_of<RequestFate>("candidate")};
}

namespace {

template <class Table>
void write_candidates(telemetry::Exposition& out, const Table& counts_at,
                      const telemetry::NameList<telemetry::DecisionName>& limits,
                      const telemetry::MetricInfo& info) {
    const auto family = out.family(info);
    for (std::size_t slot = 0; slot < limits.size(); ++slot) {
        std::string_view policy = limits[slot].policy;
        if (!policy.ends_with(config::kCandidateSuffix)) continue;
        policy.remove_suffix(config::kCandidateSuffix.size());
        std::array<std::array<std::uint64_t, 2>, 2> counts{};
        std::uint64_t all = 0;
        for (const RequestFate live : {RequestFate::admitted, RequestFate::denied}) {
            for (const RequestFate candidate : {RequestFate::admitted, RequestFate::denied}) {
                all += counts[static_cast<std::size_t>(live)][static_cast<std::size_t>(candidate)] =
                    counts_at(slot, live, candidate);
            }
        }
        if (all == 0) continue;  // another limit of the candidate has them
        for (const RequestFate live : {RequestFate::admitted, RequestFate::denied}) {
            for (const RequestFate candidate : {RequestFate::admitted, RequestFate::denied}) {
                family.add(
                    {policy, to_string(live), to_string(candidate)},
                    counts[static_cast<std::size_t>(live)][static_cast<std::size_t>(candidate)]);
            }
        }
    }
}

}  // namespace

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
    const auto counts_at = [&](std::size_t slot, RequestFate live, RequestFate candidate) {
        return telemetry::sum(
            threads, [&](const Metrics& one) -> const auto& {
                return one.candidates_[slot].of(live, candidate);
            });
    };
    write_candidates(out, counts_at, limits, decltype(candidates_)::Entry::info());
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
    const bool has_candidates = std::any_of(
        policies.names().begin(), policies.names().end(), [](const telemetry::LivePolicy& name) {
            return name.policy.ends_with(config::kCandidateSuffix);
        });
    if (has_candidates) totals.candidates.resize(policies.columns());
    for (const Metrics* one : threads) {
        for (std::size_t slot = 0; slot < policies.slots(); ++slot) {
            const DecisionCounts& of_thread = one->decisions_[slot];
            telemetry::LivePair& column = totals.policies[policies.column(slot)];
            column.all += of_thread.admitted.value();
            column.denied += of_thread.denied.value();
            if (has_candidates) {
                const CandidateCounts& sides = one->candidates_[slot];
                telemetry::LivePair& changed = totals.candidates[policies.column(slot)];
                changed.all += sides.of(RequestFate::admitted, RequestFate::denied).value();
                changed.denied += sides.of(RequestFate::denied, RequestFate::admitted).value();
            }
            if (policies.column(slot) >= totals.costs.size()) continue;
            const PolicyCosts& costs = one->costs_[slot];
            telemetry::LiveCost& cost = totals.costs[policies.column(slot)];
            cost.settled += costs.settled.value();
            cost.reserved += costs.reserved.value();
        }
    }
}

}  // namespace tidegate::ask

#include "proxy/metrics.hpp"

#include <array>
#include <map>
#include <tuple>

#include "telemetry/metric_members.hpp"

namespace tidegate::proxy {

namespace {

// Of the faults that are a line of /metrics.
const std::vector<std::string_view>& fault_names() {
    static const std::vector<std::string_view> names = [] {
        std::vector<std::string_view> all;
        for (std::size_t i = 0; i < ask::kFaults; ++i) {
            const std::string_view name = ask::traits(static_cast<ask::Fault>(i)).name;
            if (!name.empty()) all.push_back(name);
        }
        return all;
    }();
    return names;
}

}  // namespace

std::vector<telemetry::MetricLabel> FaultCounts::labels() {
    return {{.name = "fault",
             .values = fault_names(),
             .note = "what went wrong, as `error` in the access log says it"}};
}

void FaultCounts::add(telemetry::Family family, telemetry::LabelValues,
                      telemetry::Threads<FaultCounts> threads) {
    for (std::size_t i = 0; i < ask::kFaults; ++i) {
        const auto fault = static_cast<ask::Fault>(i);
        const std::string_view name = ask::traits(fault).name;
        if (name.empty()) continue;  // nothing went wrong
        family.add({name}, telemetry::sum(
                               threads, [fault](const FaultCounts& one) -> const auto& {
                                   return one[fault];
                               }));
    }
}

void TunnelMetrics::write(telemetry::Exposition& out, telemetry::Threads<TunnelMetrics> threads) {
    // Before those that were opened: see telemetry::sum_open().
    std::uint64_t ended = 0;
    for (const TunnelMetrics* one : threads) ended += one->ended.sum();
    const auto opened = telemetry::sum(threads, &TunnelMetrics::opened);
    using Ended = decltype(TunnelMetrics::ended);
    Ended::write(out, telemetry::parts_of<Ended>(threads, &TunnelMetrics::ended));
    out.family({.name = "tidegate_tunnels_open",
                .type = telemetry::MetricType::gauge,
                .help = "Tunnels (WebSockets) that are open",
                .note = "See [tunnels](tunnels.md)."})
        .add({}, opened > ended ? opened - ended : 0);
}

void Metrics::write(telemetry::Exposition& out, Threads threads,
                    const telemetry::NameRegistry& names) {
    const RouteNames& routes = names.routes;
    write_requests(out, threads, routes);
    using Faults = decltype(faults_);
    Faults::write(out, telemetry::parts_of<Faults>(threads, &Metrics::faults_));
    write_request_seconds(out, threads, routes);
    write_usage(out, threads, names);
    write_unknown_usage(out, threads, routes);
    telemetry::write_members<TrafficCounters>(out, threads);
}

void Metrics::add_to(telemetry::LiveTotals& totals, Threads threads, const RouteNames& routes) {
    using telemetry::Outcome;
    add_routes(totals, threads, routes);
    totals.request_cuts.resize(request_cuts().size() + 1);
    totals.decision_cuts.resize(decision_cuts().size() + 1);
    for (const Metrics* one : threads) {
        for (std::size_t i = 0; i < totals.answers.size(); ++i) {
            totals.answers[i] += one->answers_[i].value();
        }
        for (std::size_t i = 0; i < totals.outcomes.size(); ++i) {
            totals.outcomes[i] += one->outcomes_[static_cast<Outcome>(i)].value();
        }
        for (std::size_t i = 0; i < totals.request_cuts.size(); ++i) {
            totals.request_cuts[i] += one->seconds_.cut_bucket(i);
        }
        for (const store::StoreKind kind : kEnumerators<store::StoreKind>) {
            for (std::size_t i = 0; i < totals.decision_cuts.size(); ++i) {
                totals.decision_cuts[i] += one->decision_seconds[kind].cut_bucket(i);
            }
        }
    }
    telemetry::LivePair left;
    for (const Metrics* one : threads) {
        for (std::size_t i = 0; i < totals.outcomes.size(); ++i) {
            left.all += one->left_routes_[static_cast<Outcome>(i)].value();
        }
        left.denied += one->left_routes_[Outcome::limited].value();
    }
    totals.add_other_routes(routes.size() + 1 - totals.route_names.size(), left);
}

void Metrics::add_routes(telemetry::LiveTotals& totals, Threads threads, const RouteNames& routes) {
    totals.add_route("-",
                     live_pair(
                         threads, [](const Metrics& one) -> const auto& { return one.no_route_; }));
    for (std::size_t slot = 0; slot < routes.size() && totals.has_room_for_route(); ++slot) {
        totals.add_route(routes[slot], live_pair(
                                           threads, [slot](const Metrics& one) -> const auto& {
                                               return one.routes_[slot];
                                           }));
    }
}

telemetry::LivePair Metrics::live_pair(
    Threads threads, const std::function<const RouteCounters&(const Metrics&)>& counts_of) {
    using telemetry::Outcome;
    telemetry::LivePair counts;
    for (const Metrics* one : threads) {
        counts_of(*one).requests.for_each([&](Face, int, Outcome outcome, std::uint64_t count) {
            counts.all += count;
            if (outcome == Outcome::limited) counts.denied += count;
        });
    }
    return counts;
}

template <class Visit>
void Metrics::for_each_route(const RouteNames& routes, Visit&& visit) {
    for (std::size_t slot = 0; slot < routes.size(); ++slot) {
        visit(
            routes[slot], [slot](const Metrics& one) -> const auto& { return one.routes_[slot]; });
    }
    visit(
        std::string("-"), [](const Metrics& one) -> const auto& { return one.no_route_; });
}

void Metrics::write_requests(telemetry::Exposition& out, Threads threads,
                             const RouteNames& routes) {
    using telemetry::Outcome;
    const auto total = out.family(decltype(RouteCounters::requests)::info());
    for_each_route(routes, [&](const std::string& route, const auto& counts_of) {
        std::map<std::tuple<Face, int, Outcome>, std::uint64_t> counts;
        for (const Metrics* one : threads) {
            counts_of(*one).requests.for_each(
                [&](Face face, int status, Outcome outcome, std::uint64_t count) {
                    counts[{face, status, outcome}] += count;
                });
        }
        for (const auto& [key, count] : counts) {
            const auto& [face, status, outcome] = key;
            const std::string code = status == StatusCounts::kNoAnswer ? "-"
                                     : status == StatusCounts::kOther  ? "other"
                                                                       : std::to_string(status);
            total.add({route, code, to_string(outcome), to_string(face)}, count);
        }
    });
}

void Metrics::count_usage(std::size_t route_slot, std::size_t model_slot,
                          const usage::Tokens& tokens) {
    auto& counts = counters_of(route_slot).usage.at(model_slot);
    const auto add = [&](TokenKind kind, std::int64_t count) {
        counts[kind].add(static_cast<std::uint64_t>(count));
    };
    add(TokenKind::input, tokens.input);
    add(TokenKind::cached, tokens.cached);
    add(TokenKind::cache_write, tokens.cache_write);
    add(TokenKind::output, tokens.output);
}

// Only what was counted: most routes have no usage, and meet few models.
void Metrics::write_usage(telemetry::Exposition& out, Threads threads,
                          const telemetry::NameRegistry& names) {
    const auto family = out.family(decltype(RouteCounters::usage)::info());
    for_each_route(names.routes, [&](const std::string& route, const auto& counts_of) {
        for (std::size_t model = 0; model < names.models.size(); ++model) {
            std::array<std::uint64_t, kEnumerators<TokenKind>.size()> counts{};
            for (const Metrics* one : threads) {
                const auto* const counted = counts_of(*one).usage.find(model);
                if (counted == nullptr) continue;
                for (const TokenKind kind : kEnumerators<TokenKind>) {
                    counts[static_cast<std::size_t>(kind)] += (*counted)[kind].value();
                }
            }
            for (const TokenKind kind : kEnumerators<TokenKind>) {
                const std::uint64_t count = counts[static_cast<std::size_t>(kind)];
                if (count > 0) family.add({route, names.models[model], to_string(kind)}, count);
            }
        }
    });
}

void Metrics::write_unknown_usage(telemetry::Exposition& out, Threads threads,
                                  const RouteNames& routes) {
    const auto family = out.family(decltype(RouteCounters::unknown_usage)::info());
    for_each_route(routes, [&](const std::string& route, const auto& counts_of) {
        for (const auto reason : kEnumerators<usage::UnknownUsage>) {
            const std::uint64_t count = telemetry::sum(
                threads, [&](const Metrics& one) -> const auto& {
                    return counts_of(one).unknown_usage[reason];
                });
            if (count > 0) family.add({route, to_string(reason)}, count);
        }
    });
}

void Metrics::write_request_seconds(telemetry::Exposition& out, Threads threads,
                                    const RouteNames& routes) {
    const auto seconds = out.family(decltype(RouteCounters::seconds)::info());
    for_each_route(routes, [&](const std::string& route, const auto& counts_of) {
        seconds.add({route}, telemetry::merge<telemetry::kRequestBounds>(
                                 threads, [&](const Metrics& one) -> const auto& {
                                     return counts_of(one).seconds;
                                 }));
    });
}

}  // namespace tidegate::proxy

#include "proxy/metrics.hpp"

#include <map>
#include <tuple>
#include <utility>

namespace tidegate::proxy {

std::string_view to_string(TunnelEnd end) {
    switch (end) {
        case TunnelEnd::client:
            return "client";
        case TunnelEnd::upstream:
            return "upstream";
        case TunnelEnd::idle:
            return "idle";
        case TunnelEnd::limited:
            return "limited";
        case TunnelEnd::bad_frames:
            return "bad_frames";
        case TunnelEnd::stalled:
            return "stalled";
        case TunnelEnd::drained:
            return "drained";
        case TunnelEnd::cut:
            return "cut";
    }
    return "";
}

void Metrics::write(telemetry::Exposition& out, Threads threads, const RouteNames& routes) {
    write_requests(out, threads, routes);
    auto seconds =
        out.histogram("tidegate_decision_seconds", "How long a request waited for the store");
    for (std::size_t kind = 0; kind < store::kStoreKinds; ++kind) {
        seconds.add({{"store", std::string(to_string(static_cast<store::StoreKind>(kind)))}},
                    telemetry::merge<kDecisionBounds>(
                        threads, [&](const Metrics& one) -> const auto& {
                            return one.decision_seconds_[kind];
                        }));
    }
    out.counter("tidegate_client_received_bytes_total", "Bytes of bodies from clients")
        .add({}, telemetry::sum(threads, &Metrics::bytes_received_));
    out.counter("tidegate_client_sent_bytes_total", "Bytes of bodies to clients")
        .add({}, telemetry::sum(threads, &Metrics::bytes_sent_));
    write_tunnels(out, threads);
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
        for (const auto& histogram : one->decision_seconds_) {
            for (std::size_t i = 0; i < totals.decision_cuts.size(); ++i) {
                totals.decision_cuts[i] += histogram.cut_bucket(i);
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
    Threads threads, const std::function<const RouteCounts&(const Metrics&)>& counts_of) {
    using telemetry::Outcome;
    telemetry::LivePair counts;
    for (const Metrics* one : threads) {
        counts_of(*one).status.for_each([&](Face, int, Outcome outcome, std::uint64_t count) {
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
    auto total = out.counter("tidegate_requests_total", "Requests by route, face, status, outcome");
    for_each_route(routes, [&](const std::string& label, const auto& counts_of) {
        std::map<std::tuple<Face, int, Outcome>, std::uint64_t> counts;
        for (const Metrics* one : threads) {
            counts_of(*one).status.for_each(
                [&](Face face, int status, Outcome outcome, std::uint64_t count) {
                    counts[{face, status, outcome}] += count;
                });
        }
        for (const auto& [key, count] : counts) {
            const auto& [face, status, outcome] = key;
            std::string code = status == StatusCounts::kNoAnswer ? "-"
                               : status == StatusCounts::kOther  ? "other"
                                                                 : std::to_string(status);
            total.add({{"route", label},
                       {"code", std::move(code)},
                       {"outcome", std::string(to_string(outcome))},
                       {"face", std::string(to_string(face))}},
                      count);
        }
    });

    auto wrong = out.counter("tidegate_request_faults_total",
                             "Requests that went wrong, by `fault` of the access log");
    for (std::size_t i = 0; i < ask::kFaults; ++i) {
        const auto fault = static_cast<ask::Fault>(i);
        const std::string name(ask::traits(fault).name);
        if (name.empty()) continue;  // nothing went wrong
        wrong.add({{"fault", name}}, telemetry::sum(
                                         threads, [&](const Metrics& one) -> const auto& {
                                             return one.faults_[fault];
                                         }));
    }

    auto seconds = out.histogram("tidegate_request_seconds",
                                 "From the first byte of a request to the end of its answer");
    for_each_route(routes, [&](const std::string& label, const auto& counts_of) {
        seconds.add({{"route", label}}, telemetry::merge<telemetry::kRequestBounds>(
                                            threads, [&](const Metrics& one) -> const auto& {
                                                return counts_of(one).seconds;
                                            }));
    });
}

void Metrics::write_tunnels(telemetry::Exposition& out, Threads threads) {
    // Before those that were opened: see telemetry::sum_open().
    std::uint64_t ended = 0;
    for (std::size_t i = 0; i < decltype(tunnels_ended_)::kSize; ++i) {
        ended += telemetry::sum(
            threads, [&](const Metrics& one) -> const auto& {
                return one.tunnels_ended_[static_cast<TunnelEnd>(i)];
            });
    }
    const auto opened = telemetry::sum(threads, &Metrics::tunnels_opened_);
    out.counter("tidegate_tunnels_total",
                "Tunnels (WebSockets) that have ended, by what ended them")
        .add_each("end", threads, &Metrics::tunnels_ended_);
    out.gauge("tidegate_tunnels_open", "Tunnels (WebSockets) that are open")
        .add({}, opened > ended ? opened - ended : 0);
    out.counter("tidegate_tunnel_received_bytes_total", "Bytes of tunnels from clients")
        .add({}, telemetry::sum(threads, &Metrics::tunnel_bytes_received_));
    out.counter("tidegate_tunnel_sent_bytes_total", "Bytes of tunnels to clients")
        .add({}, telemetry::sum(threads, &Metrics::tunnel_bytes_sent_));
}

}  // namespace tidegate::proxy

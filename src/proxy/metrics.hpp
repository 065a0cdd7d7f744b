// What requests and tunnels count. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "ask/fault.hpp"
#include "base/face.hpp"
#include "proxy/status_counts.hpp"
#include "store/metrics.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/exposition.hpp"
#include "telemetry/growing_table.hpp"
#include "telemetry/live.hpp"
#include "telemetry/metric_names.hpp"
#include "telemetry/outcome.hpp"

namespace tidegate::proxy {

using telemetry::nanoseconds;

// Upper bounds of the buckets for waiting for the store.
inline constexpr std::array<nanoseconds, 13> kDecisionBounds = [] {
    using namespace std::chrono_literals;
    return std::array<nanoseconds, 13>{100us, 250us, 500us, 1ms,   2500us, 5ms, 10ms,
                                       25ms,  50ms,  100ms, 250ms, 500ms,  1s};
}();

// How a tunnel came to its end.
enum class TunnelEnd : std::uint8_t {
    client,      // the client closed, or left
    upstream,    // the upstream did
    idle,        // timeouts.tunnel_idle
    limited,     // the client sent more than `tunnel` of the route allows
    bad_frames,  // a side sent something that is not a frame
    stalled,     // timeouts.client_write
    drained,     // the process stops: the proxy has closed both ends
    cut,         // the process stops: the tunnel was cut off
};

// The word of the label and of the access log.
std::string_view to_string(TunnelEnd end);

// What one thread counts. A route's slot that is not there counts as kNoRoute. Takes about 1.6 KiB
// a route.
class Metrics {
  public:
    explicit Metrics(std::size_t names_max) : routes_(names_max) {}

    // tidegate_requests_total{route,code,outcome,face}, tidegate_request_seconds{route}. `code` is
    // "-" when no answer was sent (status 0), and "other" for what is no status, or once a route
    // has seen more than 48 pairs of status and outcome.
    void count_request(std::size_t route_slot, Face face, int status, telemetry::Outcome outcome,
                       nanoseconds took) {
        RouteCounts& counts = route_slot < routes_.size() ? routes_[route_slot] : no_route_;
        counts.status.count(face, status, outcome);
        counts.seconds.observe(took);
        answers_[answer_class(status)].add();
        outcomes_[outcome].add();
        if (route_slot >= kRoutesShown && route_slot < routes_.size()) left_routes_[outcome].add();
        seconds_.observe(took);
    }
    // tidegate_request_faults_total{fault}
    void count_fault(ask::Fault fault) { faults_[fault].add(); }
    // tidegate_decision_seconds{store}
    void count_decision_time(store::StoreKind store, nanoseconds took) {
        decision_seconds_[static_cast<std::size_t>(store)].observe(took);
    }
    // tidegate_client_received_bytes_total, tidegate_client_sent_bytes_total
    void count_bytes(std::uint64_t received, std::uint64_t sent) {
        bytes_received_.add(received);
        bytes_sent_.add(sent);
    }
    // tidegate_tunnels_open (gauge), tidegate_tunnels_total{end}
    void tunnel_opened() { tunnels_opened_.add(); }
    void tunnel_ended(TunnelEnd end) { tunnels_ended_[end].add(); }
    // tidegate_tunnel_received_bytes_total, tidegate_tunnel_sent_bytes_total: by clients, to them
    void count_tunnel_received(std::uint64_t bytes) { tunnel_bytes_received_.add(bytes); }
    void count_tunnel_sent(std::uint64_t bytes) { tunnel_bytes_sent_.add(bytes); }

    // For `routes` names; another thread than the one that counts may call it.
    void grow(std::size_t routes) { routes_.grow(routes); }
    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                      const telemetry::NameList<std::string>& routes);
    // The same counts for the dashboard; those of no route come first. Takes as long for thousands
    // of routes as for those that have a column of their own.
    static void add_to(telemetry::LiveTotals& totals, telemetry::Threads<Metrics> threads,
                       const telemetry::NameList<std::string>& routes);

    static constexpr std::span<const nanoseconds> decision_cuts() {
        return telemetry::FineHistogram<kDecisionBounds>::kCutBounds;
    }
    static constexpr std::span<const nanoseconds> request_cuts() {
        return telemetry::FineHistogram<telemetry::kRequestBounds>::kCutBounds;
    }

  private:
    struct RouteCounts {
        StatusCounts status;
        telemetry::FineHistogram<telemetry::kRequestBounds> seconds;
    };
    using Threads = telemetry::Threads<Metrics>;
    using RouteNames = telemetry::NameList<std::string>;

    // The routes that have columns of their own in the dashboard, beside that of no route.
    static constexpr std::size_t kRoutesShown = telemetry::kLiveColumnsMax - 1;

    static std::size_t answer_class(int status) {
        if (status == 0) return telemetry::kAnswersNone;
        if (status < 100 || status > 599) return telemetry::kAnswersOther;
        return static_cast<std::size_t>(status / 100 - 1);
    }
    // Calls `visit(label, counts_of)` for every route, and for no route; `counts_of(metrics)` are
    // its own.
    template <class Visit>
    static void for_each_route(const RouteNames& routes, Visit&& visit);
    // Of one route: all requests, and those that were limited.
    static telemetry::LivePair live_pair(
        Threads threads, const std::function<const RouteCounts&(const Metrics&)>& counts_of);
    static void add_routes(telemetry::LiveTotals& totals, Threads threads,
                           const RouteNames& routes);
    static void write_requests(telemetry::Exposition& out, Threads threads,
                               const RouteNames& routes);
    static void write_tunnels(telemetry::Exposition& out, Threads threads);

    telemetry::GrowingTable<RouteCounts> routes_;
    RouteCounts no_route_;
    // Of all routes, so that the dashboard need not add up those of each.
    std::array<telemetry::Counter, telemetry::kAnswerClasses> answers_{};
    telemetry::CounterBy<telemetry::Outcome, telemetry::Outcome::aborted> outcomes_;
    telemetry::CounterBy<telemetry::Outcome, telemetry::Outcome::aborted> left_routes_;
    telemetry::FineHistogram<telemetry::kRequestBounds> seconds_;
    telemetry::CounterBy<ask::Fault, ask::kLastFault> faults_;
    std::array<telemetry::FineHistogram<kDecisionBounds>, store::kStoreKinds>
        decision_seconds_{};  // by StoreKind
    telemetry::Counter bytes_received_;
    telemetry::Counter bytes_sent_;
    telemetry::Counter tunnels_opened_;
    telemetry::CounterBy<TunnelEnd, TunnelEnd::cut> tunnels_ended_;
    telemetry::Counter tunnel_bytes_received_;
    telemetry::Counter tunnel_bytes_sent_;
};

}  // namespace tidegate::proxy

// What requests and tunnels count. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ask/fault.hpp"
#include "base/described_enum.hpp"
#include "base/shared_enums.hpp"
#include "store/metrics.hpp"
#include "telemetry/access_log_fields.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/live.hpp"
#include "telemetry/metric.hpp"
#include "usage/answer.hpp"
#include "usage/cost.hpp"

namespace tidegate::proxy {

using telemetry::nanoseconds;

// Counts of requests by face, status and outcome: one thread writes them, any thread may read them.
// A small table with open addressing: a route meets few of the 10,000 combinations. Statuses beyond
// the bound, which an upstream may invent, are counted together.
class StatusCounts {
  public:
    using Outcome = telemetry::Outcome;
    static constexpr int kNoAnswer = 0;
    static constexpr int kOther = 1;

    static constexpr telemetry::MetricType kType = telemetry::MetricType::counter;
    static std::vector<telemetry::MetricLabel> labels() {
        return {{.name = "route"},
                {.name = "code",
                 .note = "the status, `-` if no answer was sent, `other` for what is no status, "
                         "and once a route has seen more than 48 pairs of status and outcome"},
                {.name = "outcome",
                 .values = kEnumNames<Outcome>,
                 .notes = telemetry::kOutcomeNotes.values()},
                telemetry::label_of<Face>("face")};
    }

    void count(Face face, int status, Outcome outcome) {
        slot_of(key_of(face, normalised(status), outcome), outcome).add();
    }

    // Calls `visit(face, status, outcome, count)` for each that was met; status may be kNoAnswer or
    // kOther. Any thread. The same may come twice (kOther).
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const Slot& slot : slots_) {
            const std::uint32_t key = slot.key.load(std::memory_order_acquire);
            if (key == 0) continue;
            const std::uint32_t pair = key / kFaces;
            visit(static_cast<Face>(key % kFaces), static_cast<int>(pair / kOutcomes - 1),
                  static_cast<Outcome>(pair % kOutcomes), slot.counter.value());
        }
        for (std::size_t i = 0; i < kOutcomes * kFaces; ++i) {
            if (const auto n = overflow_[i / kFaces][i % kFaces].value(); n != 0) {
                visit(static_cast<Face>(i % kFaces), kOther, static_cast<Outcome>(i / kFaces), n);
            }
        }
    }

  private:
    using Counter = telemetry::Counter;
    static constexpr std::size_t kOutcomes = telemetry::kOutcomes;
    static constexpr std::size_t kSlots = 64;
    static constexpr std::size_t kPairsMax = 48;  // a table that is never full ends every search

    struct Slot {
        std::atomic<std::uint32_t> key{0};  // 0: free
        Counter counter;
    };

    static int normalised(int status) {
        if (status == 0) return kNoAnswer;
        return status >= 100 && status <= 599 ? status : kOther;
    }
    static std::uint32_t key_of(Face face, int status, Outcome outcome) {
        const std::uint32_t pair = static_cast<std::uint32_t>(status + 1) * kOutcomes +
                                   static_cast<std::uint32_t>(outcome);
        return pair * kFaces + static_cast<std::uint32_t>(face);
    }

    Counter& slot_of(std::uint32_t key, Outcome outcome) {
        for (std::size_t i = key * 0x9e3779b1U >> 26;; i = (i + 1) % kSlots) {
            Slot& slot = slots_[i];
            const std::uint32_t found = slot.key.load(std::memory_order_relaxed);
            if (found == key) return slot.counter;
            if (found != 0) continue;
            if (pairs_ == kPairsMax) {
                return overflow_[static_cast<std::size_t>(outcome)][key % kFaces];
            }
            ++pairs_;
            slot.key.store(key, std::memory_order_release);
            return slot.counter;
        }
    }

    std::array<Slot, kSlots> slots_{};
    std::array<std::array<Counter, kFaces>, kOutcomes> overflow_{};
    std::size_t pairs_ = 0;  // the writer's own
};

// Upper bounds of the buckets for waiting for the store.
inline constexpr std::array<nanoseconds, 13> kDecisionBounds = [] {
    using namespace std::chrono_literals;
    return std::array<nanoseconds, 13>{100us, 250us, 500us, 1ms,   2500us, 5ms, 10ms,
                                       25ms,  50ms,  100ms, 250ms, 500ms,  1s};
}();

// How a tunnel came to its end; the access log has the same words.
BOOST_DEFINE_FIXED_ENUM_CLASS(TunnelEnd, std::uint8_t,
                              client,      // the client closed, or left
                              upstream,    // the upstream did
                              idle,        // timeouts.tunnel_idle
                              limited,     // the client sent more than `tunnel` of the route allows
                              bad_frames,  // a side sent something that is not a frame
                              stalled,     // timeouts.client_write
                              drained,     // the process stops: the proxy has closed both ends
                              cut)         // the process stops: the tunnel was cut off

// Requests that went wrong, by what the access log says as `error`.
struct FaultCounts : telemetry::PerEnumerator<ask::Fault, telemetry::Counter, ask::kFaults> {
    static constexpr telemetry::MetricType kType = telemetry::MetricType::counter;
    static std::vector<telemetry::MetricLabel> labels();
    static void add(telemetry::Family family, telemetry::LabelValues outer,
                    telemetry::Threads<FaultCounts> threads);
};

// Tunnels that were opened, and what ended them.
struct TunnelMetrics {
    telemetry::Counter opened;
    telemetry::Metric<telemetry::By<"end", TunnelEnd>, "tidegate_tunnels_total",
                      "Tunnels (WebSockets) that have ended, by what ended them">
        ended;

    static void write(telemetry::Exposition& out, telemetry::Threads<TunnelMetrics> threads);
};

// The kinds of tokens that providers charge apart.
BOOST_DEFINE_FIXED_ENUM_CLASS(TokenKind, std::uint8_t,
                              input,        // that no cache had
                              cached,       // that the provider's cache had
                              cache_write,  // that the provider wrote to its cache
                              output)       // with those of reasoning

// Tokens that answers took, as they say, by MetricSlots::model() and kind.
struct UsageCounts
    : telemetry::SparseTable<telemetry::CounterBy<TokenKind>, telemetry::kModelSlotsMax> {
    static constexpr telemetry::MetricType kType = telemetry::MetricType::counter;
    static std::vector<telemetry::MetricLabel> labels() {
        return {{.name = "route"},
                telemetry::label_of_models(),
                telemetry::label_of<TokenKind>("kind")};
    }
};

// Answers whose usage was looked for and not found, by reason.
struct UnknownUsageCounts : telemetry::CounterBy<usage::UnknownUsage> {
    static constexpr telemetry::MetricType kType = telemetry::MetricType::counter;
    static std::vector<telemetry::MetricLabel> labels() {
        return {{.name = "route"}, telemetry::label_of<usage::UnknownUsage>("reason")};
    }
};

// What one thread counts of a route. Takes about 1.7 KiB.
struct RouteCounters {
    telemetry::Metric<StatusCounts, "tidegate_requests_total",
                      "Requests by route, face, status, outcome">
        requests;
    telemetry::Metric<
        telemetry::ByName<"route", telemetry::FineHistogram<telemetry::kRequestBounds>>,
        "tidegate_request_seconds", "From the first byte of a request to the end of its answer">
        seconds;
    telemetry::Metric<UsageCounts, "tidegate_usage_total",
                      "Tokens that answers took, as they say, of routes whose policies count them">
        usage;
    telemetry::Metric<UnknownUsageCounts, "tidegate_cost_unknown_total",
                      "Answers that do not say what they took, by reason: what was reserved stays">
        unknown_usage;
};

// What one thread counts of all routes.
struct TrafficCounters {
    telemetry::Metric<
        telemetry::By<"store", store::StoreKind, telemetry::FineHistogram<kDecisionBounds>>,
        "tidegate_decision_seconds", "How long a request waited for the store">
        decision_seconds;
    telemetry::Metric<telemetry::Counter, "tidegate_client_received_bytes_total",
                      "Bytes of bodies from clients">
        bytes_received;
    telemetry::Metric<telemetry::Counter, "tidegate_client_sent_bytes_total",
                      "Bytes of bodies to clients">
        bytes_sent;
    TunnelMetrics tunnels;
    telemetry::Metric<telemetry::Counter, "tidegate_tunnel_received_bytes_total",
                      "Bytes of tunnels from clients">
        tunnel_bytes_received;
    telemetry::Metric<telemetry::Counter, "tidegate_tunnel_sent_bytes_total",
                      "Bytes of tunnels to clients">
        tunnel_bytes_sent;
};

// What one thread counts. A route's slot that is not there counts as kNoRoute.
class Metrics : public TrafficCounters {
  public:
    explicit Metrics(std::size_t names_max) : routes_(names_max) {}

    void count_request(std::size_t route_slot, Face face, int status, telemetry::Outcome outcome,
                       nanoseconds took) {
        RouteCounters& counts = counters_of(route_slot);
        counts.requests.count(face, status, outcome);
        counts.seconds.observe(took);
        answers_[answer_class(status)].add();
        outcomes_[outcome].add();
        if (route_slot >= kRoutesShown && route_slot < routes_.size()) left_routes_[outcome].add();
        seconds_.observe(took);
    }
    // `model_slot` is MetricSlots::model().
    void count_usage(std::size_t route_slot, std::size_t model_slot, const usage::Tokens& tokens);
    void count_unknown_usage(std::size_t route_slot, usage::UnknownUsage reason) {
        counters_of(route_slot).unknown_usage[reason].add();
    }
    void count_fault(ask::Fault fault) { faults_[fault].add(); }

    // For `routes` names; another thread than the one that counts may call it.
    void grow(std::size_t routes) { routes_.grow(routes); }
    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads,
                      const telemetry::NameRegistry& names);
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
    using Threads = telemetry::Threads<Metrics>;
    using RouteNames = telemetry::NameList<std::string>;

    // The routes that have columns of their own in the dashboard, beside that of no route.
    static constexpr std::size_t kRoutesShown = telemetry::kLiveColumnsMax - 1;

    RouteCounters& counters_of(std::size_t route_slot) {
        return route_slot < routes_.size() ? routes_[route_slot] : no_route_;
    }
    static std::size_t answer_class(int status) {
        if (status == 0) return telemetry::kAnswersNone;
        if (status < 100 || status > 599) return telemetry::kAnswersOther;
        return static_cast<std::size_t>(status / 100 - 1);
    }
    // Calls `visit(label, counts_of)` for every route, and for no route; `counts_of(metrics)` are
    // its own.
    template <class Visit>
    static void for_each_route(const RouteNames& routes, Visit&& visit);
    // Counts of one route: all requests, and those that were limited.
    static telemetry::LivePair live_pair(
        Threads threads, const std::function<const RouteCounters&(const Metrics&)>& counts_of);
    static void add_routes(telemetry::LiveTotals& totals, Threads threads,
                           const RouteNames& routes);
    static void write_requests(telemetry::Exposition& out, Threads threads,
                               const RouteNames& routes);
    static void write_usage(telemetry::Exposition& out, Threads threads,
                            const telemetry::NameRegistry& names);
    static void write_unknown_usage(telemetry::Exposition& out, Threads threads,
                                    const RouteNames& routes);
    static void write_request_seconds(telemetry::Exposition& out, Threads threads,
                                      const RouteNames& routes);

    telemetry::GrowingTable<RouteCounters> routes_;
    RouteCounters no_route_;
    // Sums of all routes, so that the dashboard need not add up those of each.
    std::array<telemetry::Counter, telemetry::kAnswerClasses> answers_{};
    telemetry::CounterBy<telemetry::Outcome> outcomes_;
    telemetry::CounterBy<telemetry::Outcome> left_routes_;
    telemetry::FineHistogram<telemetry::kRequestBounds> seconds_;
    telemetry::Metric<FaultCounts, "tidegate_request_faults_total",
                      "Requests that went wrong, by `fault` of the access log">
        faults_;
};

}  // namespace tidegate::proxy

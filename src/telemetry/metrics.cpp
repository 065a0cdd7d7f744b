#include "telemetry/metrics.hpp"

#include <cassert>
#include <limits>
#include <map>
#include <utility>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "telemetry/families.hpp"
#include "telemetry/metrics_shard.hpp"

namespace tidegate::telemetry {

std::string_view to_string(Outcome outcome) {
    switch (outcome) {
        case Outcome::forwarded:
            return "forwarded";
        case Outcome::limited:
            return "limited";
        case Outcome::rejected:
            return "rejected";
        case Outcome::failed:
            return "failed";
        case Outcome::unavailable:
            return "unavailable";
        case Outcome::aborted:
            return "aborted";
    }
    return "";
}

std::string_view to_string(StoreKind kind) {
    switch (kind) {
        case StoreKind::memory:
            return "memory";
        case StoreKind::redis:
            return "redis";
        case StoreKind::local:
            return "local";
    }
    return "";
}

std::string_view to_string(StoreFailure failure) {
    switch (failure) {
        case StoreFailure::timeout:
            return "timeout";
        case StoreFailure::disconnected:
            return "disconnected";
        case StoreFailure::unavailable:
            return "unavailable";
        case StoreFailure::overloaded:
            return "overloaded";
        case StoreFailure::refused:
            return "refused";
        case StoreFailure::protocol:
            return "protocol";
        case StoreFailure::full:
            return "full";
    }
    return "";
}

struct Metrics::Impl {
    // Adds up `get(shard)` over all shards.
    template <class Get>
    std::uint64_t sum(Get&& get) const {
        std::uint64_t total = 0;
        for (const auto& shard : shards) total += get(*shard->impl_);
        return total;
    }
    template <const auto& kBounds, class Get>
    void histogram(Family family, Labels labels, Get&& get) const {
        MergedHistogram merged(kBounds);
        for (const auto& shard : shards) merged.add(get(*shard->impl_));
        family.add(std::move(labels), merged);
    }

    std::size_t workers_that_see(StoreState state) const {
        return sum([&](const auto& shard) {
            return shard.store_state.load(std::memory_order_relaxed) == state ? 1U : 0U;
        });
    }
    // `-` stands after the last one: requests that met no route.
    std::string route_label(std::size_t route) const {
        return route < names.routes.size() ? names.routes[route] : "-";
    }

    void add_requests(Families& families) const;
    void add_decisions(Families& families) const;
    void add_store(Families& families, const Gauges& gauges) const;
    void add_upstreams(Families& families) const;
    void add_connections(Families& families) const;
    void add_process(Families& families, const Gauges& gauges) const;

    MetricNames names;
    std::string version;
    std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
    std::vector<std::unique_ptr<MetricsShard>> shards;
};

Metrics::Metrics(MetricNames names, std::size_t shards, std::string version)
    : impl_(std::make_unique<Impl>()) {
    impl_->names = std::move(names);
    impl_->version = std::move(version);
    for (std::size_t i = 0; i < shards; ++i) {
        impl_->shards.push_back(std::make_unique<MetricsShard>(impl_->names));
    }
}

Metrics::~Metrics() = default;

MetricsShard& Metrics::shard(std::size_t index) {
    assert(index < impl_->shards.size());
    return *impl_->shards[index];
}

bool Metrics::store_is_up() const {
    return impl_->workers_that_see(StoreState::down) == 0;
}

std::string Metrics::serialize(const Gauges& gauges) const {
    Families families;
    impl_->add_requests(families);
    impl_->add_decisions(families);
    impl_->add_store(families, gauges);
    impl_->add_upstreams(families);
    impl_->add_connections(families);
    impl_->add_process(families, gauges);
    return prometheus::TextSerializer().Serialize(families.take());
}

void Metrics::Impl::add_requests(Families& families) const {
    auto total = families.counter("tidegate_requests_total", "Requests by route, status, outcome");
    for (std::size_t route = 0; route <= names.routes.size(); ++route) {
        std::map<std::pair<int, Outcome>, std::uint64_t> counts;
        for (const auto& shard : shards) {
            shard->impl_->routes[route].status.for_each(
                [&](int status, Outcome outcome, std::uint64_t count) {
                    counts[{status, outcome}] += count;
                });
        }
        for (const auto& [key, count] : counts) {
            const auto& [status, outcome] = key;
            std::string code = status == StatusCounts::kNoAnswer ? "-"
                               : status == StatusCounts::kOther  ? "other"
                                                                 : std::to_string(status);
            total.add({{"route", route_label(route)},
                       {"code", std::move(code)},
                       {"outcome", std::string(to_string(outcome))}},
                      count);
        }
    }

    auto seconds = families.histogram("tidegate_request_seconds",
                                      "From the first byte of a request to the end of its answer");
    for (std::size_t route = 0; route <= names.routes.size(); ++route) {
        histogram<kRequestBounds>(
            seconds, {{"route", route_label(route)}}, [&](const auto& shard) -> auto& {
                return shard.routes[route].seconds;
            });
    }
}

void Metrics::Impl::add_decisions(Families& families) const {
    auto total = families.counter("tidegate_decisions_total", "What each limit answered");
    std::size_t index = 0;
    for (const auto& policy : names.policies) {
        for (const auto& limit : policy.limits) {
            const auto add = [&](const char* outcome, Counter DecisionCounts::*counter) {
                total.add({{"policy", policy.policy}, {"limit", limit}, {"outcome", outcome}},
                          sum([&](const auto& shard) {
                              return (shard.decisions[index].*counter).value();
                          }));
            };
            add("admitted", &DecisionCounts::admitted);
            add("denied", &DecisionCounts::denied);
            ++index;
        }
    }

    auto seconds =
        families.histogram("tidegate_decision_seconds", "How long a request waited for the store");
    for (std::size_t kind = 0; kind < kStoreKinds; ++kind) {
        histogram<kDecisionBounds>(
            seconds, {{"store", std::string(to_string(static_cast<StoreKind>(kind)))}},
            [&](const auto& shard) -> auto& { return shard.decision_seconds[kind]; });
    }
}

void Metrics::Impl::add_store(Families& families, const Gauges& gauges) const {
    auto failures = families.counter("tidegate_store_failures_total",
                                     "Decisions the store did not make, by reason");
    for (std::size_t reason = 0; reason < kStoreFailures; ++reason) {
        failures.add({{"reason", std::string(to_string(static_cast<StoreFailure>(reason)))}},
                     sum([&](const auto& shard) { return shard.store_failures[reason].value(); }));
    }
    auto state = families.gauge("tidegate_store_state", "How many workers see the store so");
    state.add({{"state", "up"}}, workers_that_see(StoreState::up));
    state.add({{"state", "down"}}, workers_that_see(StoreState::down));
    families.gauge("tidegate_memory_store_keys", "Identifiers counted in this process")
        .add({}, gauges.memory_store_keys);
    families
        .counter("tidegate_memory_store_evictions_total",
                 "Identifiers forgotten in this process before their time, for want of room")
        .add({}, gauges.memory_store_evictions);
}

void Metrics::Impl::add_upstreams(Families& families) const {
    auto seconds = families.histogram("tidegate_upstream_seconds",
                                      "From sending a request to the head of its answer");
    auto failures = families.counter("tidegate_upstream_failures_total",
                                     "Requests an upstream did not answer, or not properly");
    for (std::size_t i = 0; i < names.upstreams.size(); ++i) {
        histogram<kRequestBounds>(
            seconds, {{"upstream", names.upstreams[i]}}, [&](const auto& shard) -> auto& {
                return shard.upstreams[i].seconds;
            });
        failures.add({{"upstream", names.upstreams[i]}},
                     sum([&](const auto& shard) { return shard.upstreams[i].failures.value(); }));
    }
}

void Metrics::Impl::add_connections(Families& families) const {
    const auto add = [&](const std::string& whose, const std::string& what,
                         ConnectionCounts MetricsShard::Impl::*counts) {
        // Closed before opened: one that opens in between must not make the gauge negative.
        const auto closed = sum([&](const auto& shard) { return (shard.*counts).closed.value(); });
        const auto opened = sum([&](const auto& shard) { return (shard.*counts).opened.value(); });
        families.gauge("tidegate_" + whose + "_connections", what + " that are open")
            .add({}, opened > closed ? opened - closed : 0);
        families.counter("tidegate_" + whose + "_connections_total", what + " ever opened")
            .add({}, opened);
    };
    add("client", "Connections from clients", &MetricsShard::Impl::clients);
    add("upstream", "Connections to upstreams", &MetricsShard::Impl::upstream_connections);
    families
        .counter("tidegate_client_connections_refused_total",
                 "Connections closed at once because there were too many")
        .add({}, sum([](const auto& shard) { return shard.clients_refused.value(); }));
    families.counter("tidegate_client_received_bytes_total", "Bytes of bodies from clients")
        .add({}, sum([](const auto& shard) { return shard.bytes_received.value(); }));
    families.counter("tidegate_client_sent_bytes_total", "Bytes of bodies to clients")
        .add({}, sum([](const auto& shard) { return shard.bytes_sent.value(); }));
}

void Metrics::Impl::add_process(Families& families, const Gauges& gauges) const {
    families.counter("tidegate_access_log_dropped_total", "Access log lines that were not written")
        .add({}, gauges.access_log_dropped);
    families.gauge("tidegate_config_generation", "Which configuration is in force, from 1")
        .add({}, gauges.config_generation);
    families.gauge("tidegate_build_info", "The program; always 1").add({{"version", version}}, 1);
    const std::chrono::duration<double> since_epoch = started.time_since_epoch();
    families.gauge("process_start_time_seconds", "When the process started, in Unix time")
        .add({}, since_epoch.count());
}

}  // namespace tidegate::telemetry

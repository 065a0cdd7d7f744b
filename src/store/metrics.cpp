#include "store/metrics.hpp"

#include <algorithm>

#include "store/memory_store.hpp"

namespace tidegate::store {

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

std::string_view to_string(LocalReportResult result) {
    switch (result) {
        case LocalReportResult::reported:
            return "reported";
        case LocalReportResult::expired:
            return "expired";
        case LocalReportResult::lost:
            return "lost";
        case LocalReportResult::refused:
            return "refused";
        case LocalReportResult::forgotten:
            return "forgotten";
    }
    return "";
}

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads) {
    out.counter("tidegate_store_failures_total", "Decisions the store did not make, by reason")
        .add_each("reason", threads, &Metrics::failures_);
    out.counter("tidegate_deny_cache_hits_total", "Requests denied by a remembered denial of Redis")
        .add({}, telemetry::sum(threads, &Metrics::deny_cache_hits_));
    out.counter("tidegate_store_given_back_total",
                "Requests over several slots of Redis Cluster that one slot charged and gave "
                "back, as another denied them")
        .add({}, telemetry::sum(threads, &Metrics::given_back_));
    out.counter("tidegate_local_reports_total",
                "Identifiers counted in process while Redis was down, by the "
                "result of reporting them to Redis afterwards")
        .add_each("result", threads, &Metrics::local_reports_);
    const auto down = std::count_if(threads.begin(), threads.end(), [](const Metrics* one) {
        return one->store_state() == StoreState::down;
    });
    auto state = out.gauge("tidegate_store_state", "Workers that see the store in this state");
    state.add({{"state", "up"}}, threads.size() - static_cast<std::size_t>(down));
    state.add({{"state", "down"}}, static_cast<std::size_t>(down));
}

void write_timeout(telemetry::Exposition& out, std::chrono::milliseconds timeout) {
    out.gauge("tidegate_store_timeout_seconds", "store.redis.timeout: how long a decision may take")
        .add({}, std::chrono::duration<double>(timeout).count());
}

void write_metrics(telemetry::Exposition& out, const MemoryStore& store) {
    out.gauge("tidegate_memory_store_keys", "Identifiers counted in this process")
        .add({}, std::uint64_t{store.keys()});
    out.counter("tidegate_memory_store_evictions_total",
                "Identifiers evicted in this process before they expired, for lack of room")
        .add({}, std::uint64_t{store.evictions()});
}

}  // namespace tidegate::store

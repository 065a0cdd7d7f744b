#include "store/metrics.hpp"

#include <algorithm>

#include "store/memory_store.hpp"
#include "telemetry/metric_members.hpp"

namespace tidegate::store {

using telemetry::MetricType;

std::vector<telemetry::MetricLabel> SeenState::labels() {
    return {telemetry::label_of<StoreState>("state")};
}

void SeenState::add(telemetry::Family family, telemetry::LabelValues,
                    telemetry::Threads<SeenState> threads) {
    for (const StoreState state : kEnumerators<StoreState>) {
        const auto seen = std::count_if(threads.begin(), threads.end(),
                                        [&](const SeenState* one) { return one->get() == state; });
        family.add({to_string(state)}, seen);
    }
}

void LeasedUnits::add(telemetry::Family family, telemetry::LabelValues,
                      telemetry::Threads<LeasedUnits> threads) {
    std::int64_t units = 0;
    for (const LeasedUnits* one : threads) units += one->get();
    family.add({}, units);
}

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads) {
    telemetry::write_members<Metrics>(out, threads);
}

void write_timeout(telemetry::Exposition& out, std::optional<std::chrono::milliseconds> timeout) {
    const auto seconds = out.family({.name = "tidegate_store_timeout_seconds",
                                     .type = MetricType::gauge,
                                     .help = "store.redis.timeout: how long a decision may take",
                                     .note = "Not with `store: memory`."});
    if (timeout) seconds.add({}, std::chrono::duration<double>(*timeout).count());
}

void write_metrics(telemetry::Exposition& out, const MemoryStore* store) {
    const auto keys = out.family({.name = "tidegate_memory_store_keys",
                                  .type = MetricType::gauge,
                                  .help = "Identifiers counted in this process"});
    const auto evictions = out.family(
        {.name = "tidegate_memory_store_evictions_total",
         .help = "Identifiers evicted in this process before they expired, for lack of room"});
    if (store == nullptr) return;
    keys.add({}, store->keys());
    evictions.add({}, store->evictions());
}

}  // namespace tidegate::store

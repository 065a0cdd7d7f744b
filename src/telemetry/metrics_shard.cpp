#include "telemetry/metrics_shard.hpp"

#include <algorithm>

namespace tidegate::telemetry {

MetricsShard::Impl::Impl(const MetricNames& names)
    : routes(names.routes.size() + 1), upstreams(names.upstreams.size()) {
    std::size_t limits = 0;
    for (const auto& policy : names.policies) {
        decision_begin.push_back(limits);
        limits += policy.limits.size();
    }
    decision_begin.push_back(limits);
    decisions = ShardVector<DecisionCounts>(limits);
}

std::size_t MetricsShard::Impl::decision_index(std::size_t policy, std::size_t limit) const {
    if (policy >= decision_begin.size() - 1) return decisions.size();
    const std::size_t begin = decision_begin[policy];
    return limit < decision_begin[policy + 1] - begin ? begin + limit : decisions.size();
}

MetricsShard::MetricsShard(const MetricNames& names) : impl_(std::make_unique<Impl>(names)) {}
MetricsShard::~MetricsShard() = default;

void MetricsShard::count_request(std::size_t route, int status, Outcome outcome, nanoseconds took) {
    RouteCounts& counts = impl_->routes[std::min(route, impl_->routes.size() - 1)];
    counts.status.count(status, outcome);
    counts.seconds.observe(took);
}

void MetricsShard::count_decision(std::size_t policy, std::size_t limit, bool denied) {
    const std::size_t index = impl_->decision_index(policy, limit);
    if (index == impl_->decisions.size()) return;
    DecisionCounts& counts = impl_->decisions[index];
    (denied ? counts.denied : counts.admitted).add();
}

void MetricsShard::count_decision_time(StoreKind store, nanoseconds took) {
    impl_->decision_seconds[static_cast<std::size_t>(store)].observe(took);
}

void MetricsShard::count_store_failure(StoreFailure reason) {
    impl_->store_failures[static_cast<std::size_t>(reason)].add();
}

void MetricsShard::set_store_state(StoreState state) {
    impl_->store_state.store(state, std::memory_order_relaxed);
}

void MetricsShard::count_upstream(std::size_t upstream, nanoseconds took) {
    if (upstream < impl_->upstreams.size()) impl_->upstreams[upstream].seconds.observe(took);
}

void MetricsShard::count_upstream_failure(std::size_t upstream) {
    if (upstream < impl_->upstreams.size()) impl_->upstreams[upstream].failures.add();
}

void MetricsShard::client_connected() {
    impl_->clients.opened.add();
}
void MetricsShard::client_disconnected() {
    impl_->clients.closed.add();
}
void MetricsShard::client_refused() {
    impl_->clients_refused.add();
}
void MetricsShard::upstream_connected() {
    impl_->upstream_connections.opened.add();
}
void MetricsShard::upstream_disconnected() {
    impl_->upstream_connections.closed.add();
}

void MetricsShard::count_bytes(std::uint64_t received, std::uint64_t sent) {
    impl_->bytes_received.add(received);
    impl_->bytes_sent.add(sent);
}

}  // namespace tidegate::telemetry

#include "telemetry/metrics_shard.hpp"

namespace tidegate::telemetry {

MetricsShard::MetricsShard(std::size_t names_max, std::size_t faults)
    : impl_(std::make_unique<Impl>(names_max, faults)) {}
MetricsShard::~MetricsShard() = default;

void MetricsShard::count_request(std::size_t route_slot, Face face, int status, Outcome outcome,
                                 nanoseconds took) {
    RouteCounts& counts =
        route_slot < impl_->routes.size() ? impl_->routes[route_slot] : impl_->no_route;
    counts.status.count(face, status, outcome);
    counts.seconds.observe(took);
}

void MetricsShard::count_fault(std::size_t fault) {
    if (fault < impl_->faults.size()) impl_->faults[fault].add();
}

void MetricsShard::count_decision(std::size_t slot, bool denied) {
    if (slot >= impl_->decisions.size()) return;
    DecisionCounts& counts = impl_->decisions[slot];
    (denied ? counts.denied : counts.admitted).add();
}

void MetricsShard::count_cost_ignored(CostFault reason) {
    impl_->costs_ignored[static_cast<std::size_t>(reason)].add();
}

void MetricsShard::count_forwarding_invalid() {
    impl_->forwarding_invalid.add();
}

void MetricsShard::count_question_without_address() {
    impl_->questions_without_address.add();
}

void MetricsShard::count_forwarding_ignored() {
    impl_->forwarding_ignored.add();
}

void MetricsShard::count_decision_time(StoreKind store, nanoseconds took) {
    impl_->decision_seconds[static_cast<std::size_t>(store)].observe(took);
}

void MetricsShard::count_store_failure(StoreFailure reason) {
    impl_->store_failures[static_cast<std::size_t>(reason)].add();
}

void MetricsShard::count_deny_cache_hit() {
    impl_->deny_cache_hits.add();
}

void MetricsShard::count_given_back() {
    impl_->given_back.add();
}

void MetricsShard::count_local_report(LocalReportResult result, std::uint64_t times) {
    impl_->local_reports[static_cast<std::size_t>(result)].add(times);
}

void MetricsShard::set_store_state(StoreState state) {
    impl_->store_state.store(state, std::memory_order_relaxed);
}

void MetricsShard::count_upstream(std::size_t slot, nanoseconds took) {
    if (slot < impl_->upstreams.size()) impl_->upstreams[slot].seconds.observe(took);
}

void MetricsShard::count_upstream_queue(std::size_t slot, nanoseconds took) {
    if (slot < impl_->upstreams.size()) impl_->upstreams[slot].queue_seconds.observe(took);
}

void MetricsShard::count_upstream_failure(std::size_t slot) {
    if (slot < impl_->upstreams.size()) impl_->upstreams[slot].failures.add();
}

void MetricsShard::client_connected() {
    impl_->clients.opened.add();
}
void MetricsShard::client_disconnected() {
    impl_->clients.closed.add();
}
void MetricsShard::client_refused(ConnectionRefusal reason) {
    impl_->clients_refused[static_cast<std::size_t>(reason)].add();
}
void MetricsShard::proxy_header_refused(ProxyHeaderRefusal reason) {
    impl_->proxy_headers_refused[static_cast<std::size_t>(reason)].add();
}
void MetricsShard::tls_handshake_ended(TlsHandshakeKind handshake) {
    (handshake == TlsHandshakeKind::full ? impl_->tls_handshakes_full
                                         : impl_->tls_handshakes_resumed)
        .add();
}
void MetricsShard::tls_handshake_failed(TlsHandshakeFailure reason) {
    impl_->tls_handshakes_failed[static_cast<std::size_t>(reason)].add();
}
void MetricsShard::http2_connection_ended(Http2End reason) {
    impl_->http2_connections_ended[static_cast<std::size_t>(reason)].add();
}
void MetricsShard::http2_stream_refused() {
    impl_->http2_streams_refused.add();
}
void MetricsShard::client_idled_out() {
    impl_->clients_idled_out.add();
}

void MetricsShard::client_made_room() {
    impl_->clients_made_room.add();
}
void MetricsShard::count_internal_error() {
    impl_->internal_errors.add();
}
void MetricsShard::upstream_connected() {
    impl_->upstream_connections.opened.add();
}
void MetricsShard::upstream_disconnected() {
    impl_->upstream_connections.closed.add();
}

void MetricsShard::tunnel_opened() {
    impl_->tunnels_opened.add();
}
void MetricsShard::tunnel_ended(TunnelEnd end) {
    impl_->tunnels_ended[static_cast<std::size_t>(end)].add();
}
void MetricsShard::count_tunnel_received(std::uint64_t bytes) {
    impl_->tunnel_bytes_received.add(bytes);
}
void MetricsShard::count_tunnel_sent(std::uint64_t bytes) {
    impl_->tunnel_bytes_sent.add(bytes);
}

void MetricsShard::count_bytes(std::uint64_t received, std::uint64_t sent) {
    impl_->bytes_received.add(received);
    impl_->bytes_sent.add(sent);
}

}  // namespace tidegate::telemetry

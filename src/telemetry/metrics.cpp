#include "telemetry/metrics.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "telemetry/metric_families.hpp"
#include "telemetry/metrics_shard.hpp"
#include "telemetry/name_registry.hpp"

namespace tidegate::telemetry {

std::string_view to_string(Outcome outcome) {
    switch (outcome) {
        case Outcome::forwarded:
            return "forwarded";
        case Outcome::answered:
            return "answered";
        case Outcome::redirected:
            return "redirected";
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

std::string_view to_string(CostFault fault) {
    switch (fault) {
        case CostFault::untrusted:
            return "untrusted";
        case CostFault::unreadable:
            return "unreadable";
        case CostFault::out_of_range:
            return "out_of_range";
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

std::string_view to_string(ConnectionRefusal refusal) {
    switch (refusal) {
        case ConnectionRefusal::max:
            return "max";
        case ConnectionRefusal::per_ip:
            return "per_ip";
        case ConnectionRefusal::new_per_ip:
            return "new_per_ip";
    }
    return "";
}

std::string_view to_string(ProxyHeaderRefusal refusal) {
    switch (refusal) {
        case ProxyHeaderRefusal::peer:
            return "peer";
        case ProxyHeaderRefusal::malformed:
            return "malformed";
        case ProxyHeaderRefusal::timeout:
            return "timeout";
        case ProxyHeaderRefusal::too_many:
            return "too_many";
    }
    return "";
}

std::string_view to_string(TlsHandshakeFailure failure) {
    switch (failure) {
        case TlsHandshakeFailure::plain_http:
            return "plain_http";
        case TlsHandshakeFailure::proxy_header:
            return "proxy_header";
        case TlsHandshakeFailure::not_tls:
            return "not_tls";
        case TlsHandshakeFailure::version:
            return "version";
        case TlsHandshakeFailure::cipher:
            return "cipher";
        case TlsHandshakeFailure::unknown_name:
            return "unknown_name";
        case TlsHandshakeFailure::client_certificate:
            return "client_certificate";
        case TlsHandshakeFailure::refused:
            return "refused";
        case TlsHandshakeFailure::closed:
            return "closed";
        case TlsHandshakeFailure::timeout:
            return "timeout";
        case TlsHandshakeFailure::too_many:
            return "too_many";
        case TlsHandshakeFailure::other:
            return "other";
    }
    return "";
}

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

std::string_view to_string(Http2End end) {
    switch (end) {
        case Http2End::abuse:
            return "abuse";
        case Http2End::protocol_error:
            return "protocol_error";
        case Http2End::settings_timeout:
            return "settings_timeout";
        case Http2End::head_timeout:
            return "head_timeout";
        case Http2End::not_reading:
            return "not_reading";
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
    // Calls `visit(label, counts)` for every route, and for no route; `counts(shard)` are its own.
    template <class Visit>
    void for_each_route(Visit&& visit) const {
        for (std::size_t slot = 0; slot < names.routes.size(); ++slot) {
            visit(
                names.routes[slot], [slot](const auto& shard) -> auto& {
                    return shard.routes[slot];
                });
        }
        visit(
            std::string("-"), [](const auto& shard) -> auto& { return shard.no_route; });
    }

    void add_requests(Families& families) const;
    void add_decisions(Families& families) const;
    void add_store(Families& families, const Gauges& gauges) const;
    void add_upstreams(Families& families) const;
    void add_upstream_servers(Families& families, const Gauges& gauges) const;
    void add_connections(Families& families) const;
    void add_handshakes(Families& families) const;
    void add_http2(Families& families) const;
    void add_tunnels(Families& families) const;
    static void add_keys(Families& families, const Gauges& gauges);
    static void add_certificates(Families& families, const Gauges& gauges);
    void add_process(Families& families, const Gauges& gauges) const;

    // Names are looked at and added under the mutex; counting never waits for it.
    mutable std::mutex mutex;
    NameRegistry names;
    std::size_t names_max = kNamesMax;
    std::vector<std::string> faults;
    std::string version;
    std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
    std::vector<std::unique_ptr<MetricsShard>> shards;
};

Metrics::Metrics(const MetricNames& names, std::vector<std::string> faults, std::size_t shards,
                 std::string version)
    : impl_(std::make_unique<Impl>()) {
    impl_->faults = std::move(faults);
    impl_->version = std::move(version);
    NameRegistry first;
    first.admit(names);
    impl_->names_max = std::max(kNamesMax, first.size());
    for (std::size_t i = 0; i < shards; ++i) {
        impl_->shards.push_back(
            std::make_unique<MetricsShard>(impl_->names_max, impl_->faults.size()));
    }
    admit(names);
}

Metrics::~Metrics() = default;

MetricsShard& Metrics::shard(std::size_t index) {
    assert(index < impl_->shards.size());
    return *impl_->shards[index];
}

Result<MetricSlots, std::string> Metrics::admit(const MetricNames& names) {
    const std::lock_guard lock(impl_->mutex);
    NameRegistry grown = impl_->names;
    MetricSlots slots = grown.admit(names);
    if (grown.size() > impl_->names_max) {
        return "routes, upstreams and limits have had " + std::to_string(grown.size()) +
               " names since the start, and there are metrics for " +
               std::to_string(impl_->names_max) +
               " at most: restart Tidegate to drop the old names";
    }
    for (const auto& shard : impl_->shards) {
        shard->impl_->routes.grow(grown.routes.size());
        shard->impl_->decisions.grow(grown.decisions.size());
        shard->impl_->upstreams.grow(grown.upstreams.size());
    }
    impl_->names = std::move(grown);
    return slots;
}

bool Metrics::store_is_up() const {
    return impl_->workers_that_see(StoreState::down) == 0;
}

std::string Metrics::serialize(const Gauges& gauges) const {
    const std::lock_guard lock(impl_->mutex);
    Families families;
    impl_->add_requests(families);
    impl_->add_decisions(families);
    impl_->add_store(families, gauges);
    impl_->add_upstreams(families);
    impl_->add_upstream_servers(families, gauges);
    impl_->add_connections(families);
    impl_->add_handshakes(families);
    impl_->add_http2(families);
    impl_->add_tunnels(families);
    Impl::add_keys(families, gauges);
    Impl::add_certificates(families, gauges);
    impl_->add_process(families, gauges);
    return prometheus::TextSerializer().Serialize(families.take());
}

void Metrics::Impl::add_requests(Families& families) const {
    auto total =
        families.counter("tidegate_requests_total", "Requests by route, face, status, outcome");
    for_each_route([&](const std::string& label, const auto& counts_of) {
        std::map<std::tuple<Face, int, Outcome>, std::uint64_t> counts;
        for (const auto& shard : shards) {
            counts_of(*shard->impl_)
                .status.for_each([&](Face face, int status, Outcome outcome, std::uint64_t count) {
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

    auto wrong = families.counter("tidegate_request_faults_total",
                                  "Requests that went wrong, by `fault` of the access log");
    for (std::size_t fault = 0; fault < faults.size(); ++fault) {
        if (faults[fault].empty()) continue;
        wrong.add({{"fault", faults[fault]}},
                  sum([&](const auto& shard) { return shard.faults[fault].value(); }));
    }

    auto seconds = families.histogram("tidegate_request_seconds",
                                      "From the first byte of a request to the end of its answer");
    for_each_route([&](const std::string& label, const auto& counts_of) {
        histogram<kRequestBounds>(
            seconds, {{"route", label}}, [&](const auto& shard) -> auto& {
                return counts_of(shard).seconds;
            });
    });
}

void Metrics::Impl::add_decisions(Families& families) const {
    auto total = families.counter("tidegate_decisions_total", "What each limit answered");
    for (std::size_t slot = 0; slot < names.decisions.size(); ++slot) {
        const DecisionName& name = names.decisions[slot];
        const auto add = [&](const char* outcome, Counter DecisionCounts::*counter) {
            total.add(
                {{"policy", name.policy}, {"limit", name.limit}, {"outcome", outcome}},
                sum([&](const auto& shard) { return (shard.decisions[slot].*counter).value(); }));
        };
        add(name.shadow ? "shadow_admitted" : "admitted", &DecisionCounts::admitted);
        add(name.shadow ? "shadow_denied" : "denied", &DecisionCounts::denied);
    }

    auto costs = families.counter("tidegate_cost_ignored_total",
                                  "Costs that requests stated and Tidegate ignored, by reason");
    for (std::size_t reason = 0; reason < kCostFaults; ++reason) {
        costs.add({{"reason", std::string(to_string(static_cast<CostFault>(reason)))}},
                  sum([&](const auto& shard) { return shard.costs_ignored[reason].value(); }));
    }
    families
        .counter("tidegate_forwarding_invalid_total",
                 "Requests from trusted peers whose forwarding field could not be read to the "
                 "client: they count as the last good address")
        .add({}, sum([](const auto& shard) { return shard.forwarding_invalid.value(); }));
    families
        .counter("tidegate_questions_without_address_total",
                 "Questions of gateways that name no client address, or one that cannot be read")
        .add({}, sum([](const auto& shard) { return shard.questions_without_address.value(); }));
    families
        .counter("tidegate_forwarding_ignored_total",
                 "Requests with X-Forwarded-For or Forwarded from peers that are not trusted: they "
                 "count as the peer's address")
        .add({}, sum([](const auto& shard) { return shard.forwarding_ignored.value(); }));

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
    families
        .counter("tidegate_deny_cache_hits_total",
                 "Requests denied by a remembered denial of Redis")
        .add({}, sum([](const auto& shard) { return shard.deny_cache_hits.value(); }));
    families
        .counter("tidegate_store_given_back_total",
                 "Requests over several slots of Redis Cluster that one slot charged and gave "
                 "back, as another denied them")
        .add({}, sum([](const auto& shard) { return shard.given_back.value(); }));
    auto reports = families.counter("tidegate_local_reports_total",
                                    "Identifiers counted in process while Redis was down, by the "
                                    "result of reporting them to Redis afterwards");
    for (std::size_t result = 0; result < kLocalReportResults; ++result) {
        reports.add({{"result", std::string(to_string(static_cast<LocalReportResult>(result)))}},
                    sum([&](const auto& shard) { return shard.local_reports[result].value(); }));
    }
    auto state = families.gauge("tidegate_store_state", "Workers that see the store in this state");
    state.add({{"state", "up"}}, workers_that_see(StoreState::up));
    state.add({{"state", "down"}}, workers_that_see(StoreState::down));
    families.gauge("tidegate_memory_store_keys", "Identifiers counted in this process")
        .add({}, gauges.memory_store_keys);
    families
        .counter("tidegate_memory_store_evictions_total",
                 "Identifiers evicted in this process before they expired, for lack of room")
        .add({}, gauges.memory_store_evictions);
}

void Metrics::Impl::add_upstreams(Families& families) const {
    auto seconds = families.histogram("tidegate_upstream_seconds",
                                      "From sending a request to the head of its answer");
    auto queue = families.histogram("tidegate_upstream_queue_seconds",
                                    "How long requests waited for one of max_connections");
    auto failures = families.counter("tidegate_upstream_failures_total",
                                     "Requests that an upstream did not answer properly");
    for (std::size_t i = 0; i < names.upstreams.size(); ++i) {
        histogram<kRequestBounds>(
            seconds, {{"upstream", names.upstreams[i]}}, [&](const auto& shard) -> auto& {
                return shard.upstreams[i].seconds;
            });
        histogram<kRequestBounds>(
            queue, {{"upstream", names.upstreams[i]}}, [&](const auto& shard) -> auto& {
                return shard.upstreams[i].queue_seconds;
            });
        failures.add({{"upstream", names.upstreams[i]}},
                     sum([&](const auto& shard) { return shard.upstreams[i].failures.value(); }));
    }
}

void Metrics::Impl::add_upstream_servers(Families& families, const Gauges& gauges) const {
    auto up = families.gauge("tidegate_upstream_server_up",
                             "1 if the server gets requests: it is healthy, and not ejected");
    auto active = families.gauge("tidegate_upstream_server_active",
                                 "Requests in flight, and connections being made for them");
    auto requests = families.counter("tidegate_upstream_server_requests_total",
                                     "Requests sent to the server, further attempts included");
    auto failures = families.counter("tidegate_upstream_server_failures_total",
                                     "Requests that the server did not answer properly");
    auto ejections = families.counter("tidegate_upstream_server_ejections_total",
                                      "How often the server was ejected");
    for (const Gauges::UpstreamServer& server : gauges.upstream_servers) {
        const Labels labels{{"upstream", server.upstream}, {"server", server.server}};
        up.add(labels, server.up ? 1 : 0);
        active.add(labels, server.active);
        requests.add(labels, server.requests);
        failures.add(labels, server.failures);
        ejections.add(labels, server.ejections);
    }
    auto length = families.gauge("tidegate_upstream_queue_length",
                                 "Requests that wait for one of max_connections");
    for (const Gauges::UpstreamQueue& queue : gauges.upstream_queues) {
        length.add({{"upstream", queue.upstream}}, queue.length);
    }
}

void Metrics::Impl::add_handshakes(Families& families) const {
    auto ended = families.counter("tidegate_tls_handshakes_total", "TLS handshakes with clients");
    ended.add({{"result", "full"}},
              sum([](const auto& shard) { return shard.tls_handshakes_full.value(); }));
    ended.add({{"result", "resumed"}},
              sum([](const auto& shard) { return shard.tls_handshakes_resumed.value(); }));
    auto failed = families.counter("tidegate_tls_handshakes_failed_total",
                                   "Connections of clients that ended before TLS was agreed on");
    for (std::size_t reason = 0; reason < kTlsHandshakeFailures; ++reason) {
        failed.add(
            {{"reason", std::string(to_string(static_cast<TlsHandshakeFailure>(reason)))}},
            sum([&](const auto& shard) { return shard.tls_handshakes_failed[reason].value(); }));
    }
}

void Metrics::Impl::add_http2(Families& families) const {
    auto ended = families.counter("tidegate_http2_connections_ended_total",
                                  "Connections in HTTP/2 that Tidegate ended for their clients' "
                                  "faults, by reason");
    for (std::size_t reason = 0; reason < kHttp2Ends; ++reason) {
        ended.add(
            {{"reason", std::string(to_string(static_cast<Http2End>(reason)))}},
            sum([&](const auto& shard) { return shard.http2_connections_ended[reason].value(); }));
    }
    families
        .counter(
            "tidegate_http2_streams_refused_total",
            "Requests in HTTP/2 refused uncounted: their connections had http2.streams already")
        .add({}, sum([](const auto& shard) { return shard.http2_streams_refused.value(); }));
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
    auto refused = families.counter("tidegate_client_connections_refused_total",
                                    "Connections refused at one of the bounds of `connections`");
    for (std::size_t reason = 0; reason < kConnectionRefusals; ++reason) {
        refused.add({{"reason", std::string(to_string(static_cast<ConnectionRefusal>(reason)))}},
                    sum([&](const auto& shard) { return shard.clients_refused[reason].value(); }));
    }
    auto headers = families.counter("tidegate_proxy_headers_refused_total",
                                    "Connections closed for their PROXY header");
    for (std::size_t reason = 0; reason < kProxyHeaderRefusals; ++reason) {
        headers.add(
            {{"reason", std::string(to_string(static_cast<ProxyHeaderRefusal>(reason)))}},
            sum([&](const auto& shard) { return shard.proxy_headers_refused[reason].value(); }));
    }
    families
        .counter("tidegate_client_connections_idle_closed_total",
                 "Connections closed because they were idle for too long")
        .add({}, sum([](const auto& shard) { return shard.clients_idled_out.value(); }));
    families
        .counter("tidegate_client_connections_made_room_total",
                 "Connections without a request, closed for other clients at connections.max")
        .add({}, sum([](const auto& shard) { return shard.clients_made_room.value(); }));
    families
        .counter("tidegate_internal_errors_total",
                 "Connections that an internal error reset; the error log says which")
        .add({}, sum([](const auto& shard) { return shard.internal_errors.value(); }));
    families.counter("tidegate_client_received_bytes_total", "Bytes of bodies from clients")
        .add({}, sum([](const auto& shard) { return shard.bytes_received.value(); }));
    families.counter("tidegate_client_sent_bytes_total", "Bytes of bodies to clients")
        .add({}, sum([](const auto& shard) { return shard.bytes_sent.value(); }));
}

void Metrics::Impl::add_tunnels(Families& families) const {
    // Before those that were opened: see add_connections().
    std::uint64_t ended = 0;
    auto total = families.counter("tidegate_tunnels_total",
                                  "Tunnels (WebSockets) that have ended, by what ended them");
    for (std::size_t end = 0; end < kTunnelEnds; ++end) {
        const auto count = sum([&](const auto& shard) { return shard.tunnels_ended[end].value(); });
        total.add({{"end", std::string(to_string(static_cast<TunnelEnd>(end)))}}, count);
        ended += count;
    }
    const auto opened = sum([](const auto& shard) { return shard.tunnels_opened.value(); });
    families.gauge("tidegate_tunnels_open", "Tunnels (WebSockets) that are open")
        .add({}, opened > ended ? opened - ended : 0);
    families.counter("tidegate_tunnel_received_bytes_total", "Bytes of tunnels from clients")
        .add({}, sum([](const auto& shard) { return shard.tunnel_bytes_received.value(); }));
    families.counter("tidegate_tunnel_sent_bytes_total", "Bytes of tunnels to clients")
        .add({}, sum([](const auto& shard) { return shard.tunnel_bytes_sent.value(); }));
}

void Metrics::Impl::add_keys(Families& families, const Gauges& gauges) {
    auto fetches = families.counter("tidegate_jwks_fetches_total", "Fetches of key sets (JWKS)");
    fetches.add({{"result", "ok"}}, gauges.jwks_fetches_ok);
    fetches.add({{"result", "failed"}}, gauges.jwks_fetches_failed);
    auto keys = families.gauge("tidegate_jwks_keys", "Keys in a fetched key set");
    auto age =
        families.gauge("tidegate_jwks_age_seconds", "Seconds since the key set was last fetched");
    for (const Gauges::KeyPlace& place : gauges.jwks) {
        keys.add({{"url", place.url}}, static_cast<std::uint64_t>(place.keys));
        if (place.age) age.add({{"url", place.url}}, static_cast<double>(place.age->count()));
    }
}

void Metrics::Impl::add_certificates(Families& families, const Gauges& gauges) {
    auto expiry = families.gauge("tidegate_certificate_expiry_timestamp_seconds",
                                 "When a certificate that Tidegate shows expires, in Unix time");
    for (const Gauges::CertificateExpiry& one : gauges.certificate_expiry) {
        // Whole seconds, as certificates have them.
        const auto until = std::chrono::floor<std::chrono::seconds>(one.until.time_since_epoch());
        expiry.add({{"name", one.name}}, static_cast<double>(until.count()));
    }
}

void Metrics::Impl::add_process(Families& families, const Gauges& gauges) const {
    families.counter("tidegate_access_log_dropped_total", "Access log lines that were not written")
        .add({}, gauges.access_log_dropped);
    families.gauge("tidegate_config_generation", "Which configuration is in force, from 1")
        .add({}, gauges.config_generation);
    families
        .gauge("tidegate_configs_in_use",
               "Configurations in use: the one in force and older ones that requests still use")
        .add({}, gauges.configs_in_use);
    const std::chrono::duration<double> read_at = gauges.config_read_at.time_since_epoch();
    families
        .gauge("tidegate_config_read_timestamp_seconds",
               "When the configuration in force was read, in Unix time")
        .add({}, read_at.count());
    auto reloads = families.counter("tidegate_reloads_total", "Reloads by result");
    reloads.add({{"result", "ok"}}, gauges.reloads_ok);
    reloads.add({{"result", "refused"}}, gauges.reloads_refused);
    families.gauge("tidegate_build_info", "The program; always 1").add({{"version", version}}, 1);
    const std::chrono::duration<double> since_epoch = started.time_since_epoch();
    families.gauge("process_start_time_seconds", "When the process started, in Unix time")
        .add({}, since_epoch.count());
}

}  // namespace tidegate::telemetry

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/metrics.hpp"

namespace tidegate::telemetry {
namespace {

using namespace std::chrono_literals;

MetricNames some_names() {
    return {.routes = {"search", "login"},
            .policies = {{"per-client", {"burst", "hour"}}, {"strict", {"minute"}}},
            .upstreams = {"api"}};
}

MetricNames routes(std::vector<std::string> names) {
    MetricNames wanted;
    wanted.routes = std::move(names);
    return wanted;
}

// The value of the sample written exactly so, or "absent".
std::string sample(const std::string& text, const std::string& name_and_labels) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(name_and_labels + " ")) return line.substr(name_and_labels.size() + 1);
    }
    return "absent";
}

std::string requests(const std::string& text, const std::string& labels) {
    return sample(text, "tidegate_requests_total{" + labels + ",face=\"proxy\"}");
}

TEST_CASE("metrics: requests are counted by route, status and outcome, over all shards") {
    Metrics metrics(some_names(), {}, 2, "1.2.3");
    metrics.shard(0).count_request(0, Face::proxy, 200, Outcome::forwarded, 3ms);
    metrics.shard(1).count_request(0, Face::proxy, 200, Outcome::forwarded, 3ms);
    metrics.shard(1).count_request(0, Face::proxy, 429, Outcome::limited, 1ms);
    metrics.shard(0).count_request(1, Face::proxy, 429, Outcome::forwarded, 1ms);
    const std::string text = metrics.serialize({});
    CHECK(requests(text, R"(route="search",code="200",outcome="forwarded")") == "2");
    CHECK(requests(text, R"(route="search",code="429",outcome="limited")") == "1");
    CHECK(requests(text, R"(route="login",code="429",outcome="forwarded")") == "1");
    CHECK(requests(text, R"(route="login",code="200",outcome="forwarded")") == "absent");
}

TEST_CASE("metrics: a request without a route, and one whose route is not known, count as '-'") {
    Metrics metrics(some_names(), {}, 1, "1");
    metrics.shard(0).count_request(kNoRoute, Face::proxy, 404, Outcome::rejected, 1ms);
    metrics.shard(0).count_request(99, Face::proxy, 404, Outcome::rejected, 1ms);
    CHECK(requests(metrics.serialize({}), R"(route="-",code="404",outcome="rejected")") == "2");
}

TEST_CASE("metrics: no answer is code '-' and what is no status is code 'other'") {
    Metrics metrics(some_names(), {}, 1, "1");
    for (const int status : {0, -7, 99, 600, 1'000'000}) {
        metrics.shard(0).count_request(0, Face::proxy, status, Outcome::aborted, 1ms);
    }
    const std::string text = metrics.serialize({});
    CHECK(requests(text, R"(route="search",code="-",outcome="aborted")") == "1");
    CHECK(requests(text, R"(route="search",code="other",outcome="aborted")") == "4");
}

TEST_CASE("metrics: an upstream that answers with every status there is loses no count") {
    Metrics metrics(some_names(), {}, 1, "1");
    metrics.shard(0).count_request(0, Face::proxy, 429, Outcome::limited, 1ms);
    for (int round = 0; round < 2; ++round) {
        for (int status = 100; status < 600; ++status) {
            metrics.shard(0).count_request(0, Face::proxy, status, Outcome::forwarded, 1ms);
        }
    }
    metrics.shard(0).count_request(0, Face::proxy, 429, Outcome::limited, 1ms);
    const std::string text = metrics.serialize({});
    CHECK(requests(text, R"(route="search",code="429",outcome="limited")") == "2");
    CHECK(requests(text, R"(route="search",code="100",outcome="forwarded")") == "2");
    // 48 pairs: one limited and 47 statuses; each of the other 453 came twice.
    CHECK(requests(text, R"(route="search",code="146",outcome="forwarded")") == "2");
    CHECK(requests(text, R"(route="search",code="147",outcome="forwarded")") == "absent");
    CHECK(requests(text, R"(route="search",code="other",outcome="forwarded")") == "906");
}

TEST_CASE("metrics: a time on a bucket's bound falls into that bucket, buckets add up") {
    Metrics metrics(some_names(), {}, 2, "1");
    metrics.shard(0).count_request(0, Face::proxy, 200, Outcome::forwarded, 1ms);
    metrics.shard(1).count_request(0, Face::proxy, 200, Outcome::forwarded, 1ms + 1ns);
    metrics.shard(0).count_request(0, Face::proxy, 200, Outcome::forwarded, 11s);
    metrics.shard(0).count_request(0, Face::proxy, 200, Outcome::forwarded, -5ms);
    const std::string text = metrics.serialize({});
    const auto bucket = [&](const std::string& bound) {
        return sample(text,
                      R"(tidegate_request_seconds_bucket{route="search",le=")" + bound + R"("})");
    };
    CHECK(bucket("0.0005") == "1");
    CHECK(bucket("0.001") == "2");
    CHECK(bucket("0.0025") == "3");
    CHECK(bucket("10") == "3");
    CHECK(bucket("+Inf") == "4");
    CHECK(sample(text, R"(tidegate_request_seconds_count{route="search"})") == "4");
    CHECK(std::stod(sample(text, R"(tidegate_request_seconds_sum{route="search"})")) ==
          doctest::Approx(11.002000001));
}

TEST_CASE("metrics: faults are counted by name; those without one, and strangers, are not shown") {
    Metrics metrics(some_names(), {"", "client: slow head", "upstream: slow"}, 2, "1");
    metrics.shard(0).count_fault(0);
    metrics.shard(0).count_fault(1);
    metrics.shard(1).count_fault(1);
    metrics.shard(1).count_fault(3);
    const std::string text = metrics.serialize({});
    const auto faults = [&](const std::string& name) {
        return sample(text, "tidegate_request_faults_total{fault=\"" + name + "\"}");
    };
    CHECK(faults("client: slow head") == "2");
    CHECK(faults("upstream: slow") == "0");
    CHECK(faults("") == "absent");
}

TEST_CASE("metrics: decisions are counted by policy, limit and answer; strangers are ignored") {
    Metrics metrics(some_names(), {}, 1, "1");
    const MetricSlots slots = *metrics.admit(some_names());
    MetricsShard& shard = metrics.shard(0);
    shard.count_decision(slots.decision(0, 1), false);
    shard.count_decision(slots.decision(0, 1), false);
    shard.count_decision(slots.decision(1, 0), true);
    shard.count_decision(slots.decision(0, 2), true);  // not the first limit of the next policy
    shard.count_decision(slots.decision(1, 1), true);
    shard.count_decision(slots.decision(2, 0), true);
    shard.count_decision(slots.decision(kNoSlot, 0), true);
    const std::string text = metrics.serialize({});
    const auto decisions = [&](const std::string& labels) {
        return sample(text, "tidegate_decisions_total{" + labels + "}");
    };
    CHECK(decisions(R"(policy="per-client",limit="hour",outcome="admitted")") == "2");
    CHECK(decisions(R"(policy="per-client",limit="hour",outcome="denied")") == "0");
    CHECK(decisions(R"(policy="per-client",limit="burst",outcome="admitted")") == "0");
    CHECK(decisions(R"(policy="strict",limit="minute",outcome="denied")") == "1");
}

TEST_CASE("metrics: the store is up when no worker sees it down") {
    Metrics metrics(some_names(), {}, 3, "1");
    CHECK(metrics.store_is_up());
    metrics.shard(1).set_store_state(StoreState::down);
    CHECK_FALSE(metrics.store_is_up());
    std::string text = metrics.serialize({});
    CHECK(sample(text, R"(tidegate_store_state{state="up"})") == "2");
    CHECK(sample(text, R"(tidegate_store_state{state="down"})") == "1");
    metrics.shard(1).set_store_state(StoreState::up);
    CHECK(metrics.store_is_up());
}

TEST_CASE("metrics: store failures and decision times go by their names") {
    Metrics metrics(some_names(), {}, 1, "1");
    metrics.shard(0).count_store_failure(StoreFailure::timeout);
    metrics.shard(0).count_store_failure(StoreFailure::full);
    metrics.shard(0).count_decision_time(StoreKind::redis, 300us);
    const std::string text = metrics.serialize({});
    CHECK(sample(text, R"(tidegate_store_failures_total{reason="timeout"})") == "1");
    CHECK(sample(text, R"(tidegate_store_failures_total{reason="full"})") == "1");
    CHECK(sample(text, R"(tidegate_store_failures_total{reason="refused"})") == "0");
    CHECK(sample(text, R"(tidegate_decision_seconds_bucket{store="redis",le="0.00025"})") == "0");
    CHECK(sample(text, R"(tidegate_decision_seconds_bucket{store="redis",le="0.0005"})") == "1");
    CHECK(sample(text, R"(tidegate_decision_seconds_count{store="memory"})") == "0");
}

TEST_CASE("metrics: lists that name the same policy and limit are one series") {
    const MetricNames names{
        .routes = {}, .policies = {{"p", {"1s", "1min"}}, {"p", {"1min", "1h"}}}, .upstreams = {}};
    Metrics metrics(names, {}, 2, "1");
    const MetricSlots slots = *metrics.admit(names);
    metrics.shard(0).count_decision(slots.decision(0, 1), false);
    metrics.shard(1).count_decision(slots.decision(1, 0), false);
    metrics.shard(1).count_decision(slots.decision(1, 1), true);
    metrics.shard(1).count_decision(slots.decision(1, 2), true);
    const std::string text = metrics.serialize({});
    const std::string line =
        R"(tidegate_decisions_total{policy="p",limit="1min",outcome="admitted"})";
    CHECK(sample(text, line) == "2");
    CHECK(text.find(line) == text.rfind(line));
    CHECK(sample(text, R"(tidegate_decisions_total{policy="p",limit="1h",outcome="denied"})") ==
          "1");
}

TEST_CASE("metrics: what a policy in shadow answers is told apart, costs not taken are counted") {
    const MetricNames names{.routes = {}, .policies = {{"p", {"1s"}, true}}, .upstreams = {}};
    Metrics metrics(names, {}, 1, "1");
    metrics.shard(0).count_decision(metrics.admit(names)->decision(0, 0), true);
    metrics.shard(0).count_cost_ignored(CostFault::untrusted);
    const std::string text = metrics.serialize({});
    CHECK(sample(text,
                 R"(tidegate_decisions_total{policy="p",limit="1s",outcome="shadow_denied"})") ==
          "1");
    CHECK(sample(text, R"(tidegate_decisions_total{policy="p",limit="1s",outcome="denied"})") ==
          "absent");
    CHECK(sample(text, R"(tidegate_cost_ignored_total{reason="untrusted"})") == "1");
    CHECK(sample(text, R"(tidegate_cost_ignored_total{reason="out_of_range"})") == "0");
}

TEST_CASE("metrics: connections, bytes and upstreams") {
    Metrics metrics(some_names(), {}, 2, "1");
    metrics.shard(0).client_connected();
    metrics.shard(0).client_connected();
    metrics.shard(1).client_connected();
    metrics.shard(0).client_disconnected();
    metrics.shard(1).client_refused(ConnectionRefusal::max);
    metrics.shard(0).client_refused(ConnectionRefusal::per_ip);
    metrics.shard(1).client_refused(ConnectionRefusal::per_ip);
    metrics.shard(0).proxy_header_refused(ProxyHeaderRefusal::peer);
    metrics.shard(1).proxy_header_refused(ProxyHeaderRefusal::too_many);
    metrics.shard(1).proxy_header_refused(ProxyHeaderRefusal::too_many);
    metrics.shard(0).client_refused(ConnectionRefusal::new_per_ip);
    metrics.shard(0).tls_handshake_ended(TlsHandshakeKind::full);
    metrics.shard(1).tls_handshake_ended(TlsHandshakeKind::resumed);
    metrics.shard(1).tls_handshake_ended(TlsHandshakeKind::resumed);
    metrics.shard(0).tls_handshake_failed(TlsHandshakeFailure::plain_http);
    metrics.shard(1).tls_handshake_failed(TlsHandshakeFailure::other);
    metrics.shard(0).client_idled_out();
    metrics.shard(0).client_made_room();
    metrics.shard(0).client_made_room();
    metrics.shard(1).count_internal_error();
    metrics.shard(1).upstream_connected();
    metrics.shard(1).upstream_disconnected();
    for (int i = 0; i < 3; ++i) metrics.shard(1).tunnel_opened();
    metrics.shard(1).tunnel_ended(TunnelEnd::idle);
    metrics.shard(1).count_tunnel_received(7);
    metrics.shard(1).count_tunnel_sent(9);
    metrics.shard(0).count_bytes(10, 5'000'000'000);
    metrics.shard(1).count_bytes(1, 2);
    metrics.shard(0).count_upstream(0, 20ms);
    metrics.shard(0).count_upstream(7, 20ms);
    metrics.shard(0).count_upstream_failure(0);
    metrics.shard(0).count_upstream_failure(1);
    const std::string text = metrics.serialize({});
    CHECK(sample(text, "tidegate_client_connections") == "2");
    CHECK(sample(text, "tidegate_client_connections_total") == "3");
    CHECK(sample(text, R"(tidegate_client_connections_refused_total{reason="max"})") == "1");
    CHECK(sample(text, R"(tidegate_client_connections_refused_total{reason="per_ip"})") == "2");
    CHECK(sample(text, R"(tidegate_proxy_headers_refused_total{reason="peer"})") == "1");
    CHECK(sample(text, R"(tidegate_proxy_headers_refused_total{reason="malformed"})") == "0");
    CHECK(sample(text, R"(tidegate_proxy_headers_refused_total{reason="timeout"})") == "0");
    CHECK(sample(text, R"(tidegate_proxy_headers_refused_total{reason="too_many"})") == "2");
    CHECK(sample(text, R"(tidegate_client_connections_refused_total{reason="new_per_ip"})") == "1");
    CHECK(sample(text, R"(tidegate_tls_handshakes_total{result="full"})") == "1");
    CHECK(sample(text, R"(tidegate_tls_handshakes_total{result="resumed"})") == "2");
    CHECK(sample(text, R"(tidegate_tls_handshakes_failed_total{reason="plain_http"})") == "1");
    CHECK(sample(text, R"(tidegate_tls_handshakes_failed_total{reason="timeout"})") == "0");
    CHECK(sample(text, R"(tidegate_tls_handshakes_failed_total{reason="other"})") == "1");
    CHECK(sample(text, "tidegate_client_connections_idle_closed_total") == "1");
    CHECK(sample(text, "tidegate_client_connections_made_room_total") == "2");
    CHECK(sample(text, "tidegate_internal_errors_total") == "1");
    CHECK(sample(text, "tidegate_tunnels_open") == "2");
    CHECK(sample(text, R"(tidegate_tunnels_total{end="idle"})") == "1");
    CHECK(sample(text, R"(tidegate_tunnels_total{end="cut"})") == "0");
    CHECK(sample(text, "tidegate_tunnel_received_bytes_total") == "7");
    CHECK(sample(text, "tidegate_tunnel_sent_bytes_total") == "9");
    CHECK(sample(text, "tidegate_upstream_connections") == "0");
    CHECK(sample(text, "tidegate_upstream_connections_total") == "1");
    CHECK(sample(text, "tidegate_client_received_bytes_total") == "11");
    CHECK(sample(text, "tidegate_client_sent_bytes_total") == "5000000002");
    CHECK(sample(text, R"(tidegate_upstream_seconds_count{upstream="api"})") == "1");
    CHECK(sample(text, R"(tidegate_upstream_failures_total{upstream="api"})") == "1");
}

TEST_CASE(
    "metrics: HTTP/2 connections count by why they were ended, refused streams for themselves") {
    Metrics metrics(some_names(), {}, 2, "1");
    metrics.shard(0).http2_connection_ended(Http2End::abuse);
    metrics.shard(1).http2_connection_ended(Http2End::abuse);
    metrics.shard(1).http2_connection_ended(Http2End::not_reading);
    for (int i = 0; i < 3; ++i) metrics.shard(1).http2_stream_refused();
    const std::string text = metrics.serialize({});
    const auto ended = [&](const std::string& reason) {
        return sample(text, "tidegate_http2_connections_ended_total{reason=\"" + reason + "\"}");
    };
    CHECK(ended("abuse") == "2");
    CHECK(ended("protocol_error") == "0");
    CHECK(ended("settings_timeout") == "0");
    CHECK(ended("head_timeout") == "0");
    CHECK(ended("not_reading") == "1");
    CHECK(sample(text, "tidegate_http2_streams_refused_total") == "3");
}

TEST_CASE("metrics: gauges and the build show what they were given") {
    const Metrics metrics(some_names(), {}, 1, "1.2.3");
    const std::string text = metrics.serialize({.memory_store_keys = 7,
                                                .memory_store_evictions = 8,
                                                .access_log_dropped = 9,
                                                .config_generation = 2});
    CHECK(sample(text, "tidegate_memory_store_keys") == "7");
    CHECK(sample(text, "tidegate_memory_store_evictions_total") == "8");
    CHECK(sample(text, "tidegate_access_log_dropped_total") == "9");
    CHECK(sample(text, "tidegate_config_generation") == "2");
    CHECK(sample(text, R"(tidegate_build_info{version="1.2.3"})") == "1");
    CHECK(std::stod(sample(text, "process_start_time_seconds")) > 1.6e9);
}

TEST_CASE("metrics: names from the configuration cannot break out of their label") {
    const Metrics metrics(routes({"a\"} 1\nb\\"}), {}, 1, "1");
    const std::string text = metrics.serialize({});
    CHECK(sample(text, R"(tidegate_request_seconds_count{route="a\"} 1\nb\\"})") == "0");
}

TEST_CASE("metrics: a configuration without policies and upstreams is served all the same") {
    const Metrics metrics({}, {}, 1, "1");
    const std::string text = metrics.serialize({});
    CHECK(text.find("tidegate_decisions_total") == std::string::npos);
    CHECK(sample(text, R"(tidegate_request_seconds_count{route="-"})") == "0");
}

TEST_CASE("metrics: a scrape while others count sees counts that only grow") {
    Metrics metrics(some_names(), {}, 2, "1");
    constexpr int kRounds = 20'000;
    std::vector<std::thread> workers;
    for (std::size_t worker = 0; worker < 2; ++worker) {
        workers.emplace_back([&metrics, worker] {
            for (int i = 0; i < kRounds; ++i) {
                metrics.shard(worker).count_request(0, Face::proxy, 200 + i % 20,
                                                    Outcome::forwarded, 1ms);
            }
        });
    }
    const std::string name = R"(tidegate_request_seconds_count{route="search"})";
    long last = 0;
    while (last < 2 * kRounds) {
        const long now = std::stol(sample(metrics.serialize({}), name));
        CHECK_GE(now, last);
        last = now;
    }
    for (auto& worker : workers) worker.join();
    CHECK(last == 2 * kRounds);
}

TEST_CASE("metrics: another configuration's names are added, and those that were there count on") {
    Metrics metrics(some_names(), {}, 2, "1");
    const MetricSlots before = *metrics.admit(some_names());
    metrics.shard(0).count_request(before.route(0), Face::proxy, 200, Outcome::forwarded, 1ms);
    metrics.shard(0).count_decision(before.decision(1, 0), true);
    metrics.shard(0).count_upstream_failure(before.upstream(0));

    MetricNames other{.routes = {"files", "search"},
                      .policies = {{"strict", {"hour", "minute"}}},
                      .upstreams = {"web", "api"}};
    const MetricSlots after = *metrics.admit(other);
    metrics.shard(1).count_request(after.route(1), Face::proxy, 200, Outcome::forwarded, 1ms);
    metrics.shard(1).count_request(after.route(0), Face::proxy, 200, Outcome::forwarded, 1ms);
    metrics.shard(1).count_decision(after.decision(0, 1), true);
    metrics.shard(1).count_upstream_failure(after.upstream(1));
    // A request that began before ends after.
    metrics.shard(0).count_request(before.route(1), Face::proxy, 200, Outcome::forwarded, 1ms);

    const std::string text = metrics.serialize({});
    CHECK(requests(text, R"(route="search",code="200",outcome="forwarded")") == "2");
    CHECK(requests(text, R"(route="files",code="200",outcome="forwarded")") == "1");
    CHECK(requests(text, R"(route="login",code="200",outcome="forwarded")") == "1");
    CHECK(sample(text,
                 R"(tidegate_decisions_total{policy="strict",limit="minute",outcome="denied"})") ==
          "2");
    CHECK(sample(text,
                 R"(tidegate_decisions_total{policy="strict",limit="hour",outcome="denied"})") ==
          "0");
    CHECK(sample(text, R"(tidegate_upstream_failures_total{upstream="api"})") == "2");
    CHECK(sample(text, R"(tidegate_upstream_failures_total{upstream="web"})") == "0");
}

TEST_CASE("metrics: a policy that leaves the shadow begins a series and keeps the old one") {
    const MetricNames shadow{.routes = {}, .policies = {{"p", {"1s"}, true}}, .upstreams = {}};
    const MetricNames enforced{.routes = {}, .policies = {{"p", {"1s"}, false}}, .upstreams = {}};
    Metrics metrics(shadow, {}, 1, "1");
    metrics.shard(0).count_decision(metrics.admit(shadow)->decision(0, 0), true);
    metrics.shard(0).count_decision(metrics.admit(enforced)->decision(0, 0), true);
    const std::string text = metrics.serialize({});
    const std::string limit = R"(tidegate_decisions_total{policy="p",limit="1s",outcome=)";
    CHECK(sample(text, limit + R"("shadow_denied"})") == "1");
    CHECK(sample(text, limit + R"("denied"})") == "1");
}

TEST_CASE("metrics: names that would be too many are refused, and none of them is added") {
    Metrics metrics(some_names(), {}, 1, "1");
    MetricNames many;
    for (std::size_t i = 0; i < Metrics::kNamesMax - 6; ++i) {
        many.routes.push_back("r" + std::to_string(i));
    }
    REQUIRE(metrics.admit(many).has_value());  // with the six of before: all there may be
    CHECK(metrics.admit(some_names()).has_value());
    const auto refused = metrics.admit(routes({"search", "one more"}));
    REQUIRE(refused.has_error());
    CHECK(refused.error().find("10001 names") != std::string::npos);
    CHECK(metrics.serialize({}).find("one more") == std::string::npos);
    metrics.shard(0).count_request(metrics.admit(many)->route(9'000), Face::proxy, 200,
                                   Outcome::forwarded, 1ms);
    CHECK(requests(metrics.serialize({}), R"(route="r9000",code="200",outcome="forwarded")") ==
          "1");
}

TEST_CASE("metrics: the first configuration may have more names than others could add") {
    MetricNames many;
    for (std::size_t i = 0; i <= Metrics::kNamesMax; ++i) {
        many.routes.push_back("r" + std::to_string(i));
    }
    Metrics metrics(many, {}, 1, "1");
    CHECK(metrics.admit(many)->route(Metrics::kNamesMax) == Metrics::kNamesMax);
    CHECK_FALSE(metrics.admit(routes({"other"})).has_value());
}

TEST_CASE("metrics: names are added and scraped while a thread counts") {
    Metrics metrics(some_names(), {}, 1, "1");
    const MetricSlots first = *metrics.admit(some_names());
    std::thread counting([&] {
        for (int i = 0; i < 20'000; ++i) {
            metrics.shard(0).count_request(first.route(1), Face::proxy, 200, Outcome::forwarded,
                                           1ms);
            metrics.shard(0).count_decision(first.decision(0, 0), false);
        }
    });
    for (int i = 0; i < 50; ++i) {
        const std::string name = "r" + std::to_string(i);
        CHECK(metrics.admit(routes({name})).has_value());
        CHECK(requests(metrics.serialize({}), R"(route="none")") == "absent");
    }
    counting.join();
    CHECK(requests(metrics.serialize({}), R"(route="login",code="200",outcome="forwarded")") ==
          "20000");
}

TEST_CASE("metrics: keys that are fetched are told by their place, their age once there is one") {
    const Metrics metrics(some_names(), {}, 1, "1");
    Metrics::Gauges gauges;
    gauges.jwks_fetches_ok = 3;
    gauges.jwks_fetches_failed = 2;
    gauges.jwks = {{"https://a/keys", 2, 90s}, {"https://b/", 0, std::nullopt}};
    const std::string text = metrics.serialize(gauges);
    CHECK(sample(text, R"(tidegate_jwks_fetches_total{result="ok"})") == "3");
    CHECK(sample(text, R"(tidegate_jwks_fetches_total{result="failed"})") == "2");
    CHECK(sample(text, R"(tidegate_jwks_keys{url="https://a/keys"})") == "2");
    CHECK(sample(text, R"(tidegate_jwks_keys{url="https://b/"})") == "0");
    CHECK(sample(text, R"(tidegate_jwks_age_seconds{url="https://a/keys"})") == "90");
    CHECK(sample(text, R"(tidegate_jwks_age_seconds{url="https://b/"})") == "absent");
}

TEST_CASE("metrics: a certificate's expiry is a whole number of seconds, by its name") {
    Metrics metrics(some_names(), {}, 1, "1");
    Metrics::Gauges gauges;
    gauges.certificate_expiry = {
        {"a.example", std::chrono::system_clock::from_time_t(1'795'255'201)},
        {"b.example", std::chrono::system_clock::from_time_t(1'795'255'202) + 1ms}};
    const std::string text = metrics.serialize(gauges);
    const auto expiry = [&](const std::string& name) {
        return sample(text, "tidegate_certificate_expiry_timestamp_seconds{name=\"" + name + "\"}");
    };
    CHECK(expiry("a.example") == "1795255201");
    CHECK(expiry("b.example") == "1795255202");
    CHECK(metrics.serialize({}).find("tidegate_certificate_expiry") == std::string::npos);
}

}  // namespace
}  // namespace tidegate::telemetry

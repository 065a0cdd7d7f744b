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

// The value of the sample written exactly so, or "absent".
std::string sample(const std::string& text, const std::string& name_and_labels) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(name_and_labels + " ")) return line.substr(name_and_labels.size() + 1);
    }
    return "absent";
}

std::string requests(const std::string& text, const std::string& labels) {
    return sample(text, "tidegate_requests_total{" + labels + "}");
}

TEST_CASE("metrics: requests are counted by route, status and outcome, over all shards") {
    Metrics metrics(some_names(), 2, "1.2.3");
    metrics.shard(0).count_request(0, 200, Outcome::forwarded, 3ms);
    metrics.shard(1).count_request(0, 200, Outcome::forwarded, 3ms);
    metrics.shard(1).count_request(0, 429, Outcome::limited, 1ms);
    metrics.shard(0).count_request(1, 429, Outcome::forwarded, 1ms);
    const std::string text = metrics.serialize({});
    CHECK(requests(text, R"(route="search",code="200",outcome="forwarded")") == "2");
    CHECK(requests(text, R"(route="search",code="429",outcome="limited")") == "1");
    CHECK(requests(text, R"(route="login",code="429",outcome="forwarded")") == "1");
    CHECK(requests(text, R"(route="login",code="200",outcome="forwarded")") == "absent");
}

TEST_CASE("metrics: a request without a route, and one whose route is not known, count as '-'") {
    Metrics metrics(some_names(), 1, "1");
    metrics.shard(0).count_request(kNoRoute, 404, Outcome::rejected, 1ms);
    metrics.shard(0).count_request(99, 404, Outcome::rejected, 1ms);
    CHECK(requests(metrics.serialize({}), R"(route="-",code="404",outcome="rejected")") == "2");
}

TEST_CASE("metrics: no answer is code '-' and what is no status is code 'other'") {
    Metrics metrics(some_names(), 1, "1");
    for (const int status : {0, -7, 99, 600, 1'000'000}) {
        metrics.shard(0).count_request(0, status, Outcome::aborted, 1ms);
    }
    const std::string text = metrics.serialize({});
    CHECK(requests(text, R"(route="search",code="-",outcome="aborted")") == "1");
    CHECK(requests(text, R"(route="search",code="other",outcome="aborted")") == "4");
}

TEST_CASE("metrics: an upstream that answers with every status there is loses no count") {
    Metrics metrics(some_names(), 1, "1");
    metrics.shard(0).count_request(0, 429, Outcome::limited, 1ms);
    for (int round = 0; round < 2; ++round) {
        for (int status = 100; status < 600; ++status) {
            metrics.shard(0).count_request(0, status, Outcome::forwarded, 1ms);
        }
    }
    metrics.shard(0).count_request(0, 429, Outcome::limited, 1ms);
    const std::string text = metrics.serialize({});
    CHECK(requests(text, R"(route="search",code="429",outcome="limited")") == "2");
    CHECK(requests(text, R"(route="search",code="100",outcome="forwarded")") == "2");
    // 48 pairs: one limited and 47 statuses; each of the other 453 came twice.
    CHECK(requests(text, R"(route="search",code="146",outcome="forwarded")") == "2");
    CHECK(requests(text, R"(route="search",code="147",outcome="forwarded")") == "absent");
    CHECK(requests(text, R"(route="search",code="other",outcome="forwarded")") == "906");
}

TEST_CASE("metrics: a time on a bucket's bound falls into that bucket, buckets add up") {
    Metrics metrics(some_names(), 2, "1");
    metrics.shard(0).count_request(0, 200, Outcome::forwarded, 1ms);
    metrics.shard(1).count_request(0, 200, Outcome::forwarded, 1ms + 1ns);
    metrics.shard(0).count_request(0, 200, Outcome::forwarded, 11s);
    metrics.shard(0).count_request(0, 200, Outcome::forwarded, -5ms);
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

TEST_CASE("metrics: decisions are counted by policy, limit and answer; strangers are ignored") {
    Metrics metrics(some_names(), 1, "1");
    MetricsShard& shard = metrics.shard(0);
    shard.count_decision(0, 1, false);
    shard.count_decision(0, 1, false);
    shard.count_decision(1, 0, true);
    shard.count_decision(0, 2, true);  // would be the first limit of the next policy
    shard.count_decision(1, 1, true);
    shard.count_decision(2, 0, true);
    shard.count_decision(kNoRoute, 0, true);
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
    Metrics metrics(some_names(), 3, "1");
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
    Metrics metrics(some_names(), 1, "1");
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

TEST_CASE("metrics: connections, bytes and upstreams") {
    Metrics metrics(some_names(), 2, "1");
    metrics.shard(0).client_connected();
    metrics.shard(0).client_connected();
    metrics.shard(1).client_connected();
    metrics.shard(0).client_disconnected();
    metrics.shard(1).client_refused();
    metrics.shard(1).upstream_connected();
    metrics.shard(1).upstream_disconnected();
    metrics.shard(0).count_bytes(10, 5'000'000'000);
    metrics.shard(1).count_bytes(1, 2);
    metrics.shard(0).count_upstream(0, 20ms);
    metrics.shard(0).count_upstream(7, 20ms);
    metrics.shard(0).count_upstream_failure(0);
    metrics.shard(0).count_upstream_failure(1);
    const std::string text = metrics.serialize({});
    CHECK(sample(text, "tidegate_client_connections") == "2");
    CHECK(sample(text, "tidegate_client_connections_total") == "3");
    CHECK(sample(text, "tidegate_client_connections_refused_total") == "1");
    CHECK(sample(text, "tidegate_upstream_connections") == "0");
    CHECK(sample(text, "tidegate_upstream_connections_total") == "1");
    CHECK(sample(text, "tidegate_client_received_bytes_total") == "11");
    CHECK(sample(text, "tidegate_client_sent_bytes_total") == "5000000002");
    CHECK(sample(text, R"(tidegate_upstream_seconds_count{upstream="api"})") == "1");
    CHECK(sample(text, R"(tidegate_upstream_failures_total{upstream="api"})") == "1");
}

TEST_CASE("metrics: gauges and the build show what they were given") {
    const Metrics metrics(some_names(), 1, "1.2.3");
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
    const Metrics metrics({.routes = {"a\"} 1\nb\\"}, .policies = {}, .upstreams = {}}, 1, "1");
    const std::string text = metrics.serialize({});
    CHECK(sample(text, R"(tidegate_request_seconds_count{route="a\"} 1\nb\\"})") == "0");
}

TEST_CASE("metrics: a configuration without policies and upstreams is served all the same") {
    const Metrics metrics({}, 1, "1");
    const std::string text = metrics.serialize({});
    CHECK(text.find("tidegate_decisions_total") == std::string::npos);
    CHECK(sample(text, R"(tidegate_request_seconds_count{route="-"})") == "0");
}

TEST_CASE("metrics: a scrape while others count sees counts that only grow") {
    Metrics metrics(some_names(), 2, "1");
    constexpr int kRounds = 20'000;
    std::vector<std::thread> workers;
    for (std::size_t worker = 0; worker < 2; ++worker) {
        workers.emplace_back([&metrics, worker] {
            for (int i = 0; i < kRounds; ++i) {
                metrics.shard(worker).count_request(0, 200 + i % 20, Outcome::forwarded, 1ms);
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

}  // namespace
}  // namespace tidegate::telemetry

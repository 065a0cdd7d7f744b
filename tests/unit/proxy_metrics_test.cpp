#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "proxy/metrics.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::proxy::metrics_test {

using namespace std::chrono_literals;
using ask::Fault;
using telemetry::kNoRoute;
using telemetry::Outcome;
using test::sample;

namespace {

// Two threads, and the routes `search` and `login`.
struct Rig {
    Rig() {
        names.admit({.routes = {"search", "login"}, .policies = {}, .upstreams = {}});
        first.grow(names.routes.size());
        second.grow(names.routes.size());
    }
    std::string text() const { return test::text_of({&first, &second}, names); }

    telemetry::NameRegistry names;
    Metrics first{100};
    Metrics second{100};
};

std::string requests(const std::string& text, const std::string& labels) {
    return sample(text, "tidegate_requests_total{" + labels + ",face=\"proxy\"}");
}

}  // namespace

TEST_CASE("metrics: requests are counted by route, status and outcome, over all threads") {
    Rig rig;
    rig.first.count_request(0, Face::proxy, 200, Outcome::forwarded, 3ms);
    rig.second.count_request(0, Face::proxy, 200, Outcome::forwarded, 3ms);
    rig.second.count_request(0, Face::proxy, 429, Outcome::limited, 1ms);
    rig.first.count_request(1, Face::proxy, 429, Outcome::forwarded, 1ms);
    const std::string text = rig.text();
    CHECK(requests(text, R"(route="search",code="200",outcome="forwarded")") == "2");
    CHECK(requests(text, R"(route="search",code="429",outcome="limited")") == "1");
    CHECK(requests(text, R"(route="login",code="429",outcome="forwarded")") == "1");
    CHECK(requests(text, R"(route="login",code="200",outcome="forwarded")") == "absent");
}

TEST_CASE("metrics: a request without a route, and one whose route is not known, count as '-'") {
    Rig rig;
    rig.first.count_request(kNoRoute, Face::proxy, 404, Outcome::rejected, 1ms);
    rig.first.count_request(99, Face::proxy, 404, Outcome::rejected, 1ms);
    CHECK(requests(rig.text(), R"(route="-",code="404",outcome="rejected")") == "2");
}

TEST_CASE("metrics: no answer is code '-' and what is no status is code 'other'") {
    Rig rig;
    for (const int status : {0, -7, 99, 600, 1'000'000}) {
        rig.first.count_request(0, Face::proxy, status, Outcome::aborted, 1ms);
    }
    const std::string text = rig.text();
    CHECK(requests(text, R"(route="search",code="-",outcome="aborted")") == "1");
    CHECK(requests(text, R"(route="search",code="other",outcome="aborted")") == "4");
}

telemetry::MetricSlots with_models(Rig& rig, std::vector<std::string> models) {
    return rig.names.admit({.routes = {"search", "login"},
                            .policies = {},
                            .upstreams = {},
                            .models = std::move(models)});
}

std::string tokens(const Rig& rig, const std::string& model, const std::string& kind = "output") {
    return sample(rig.text(), R"(tidegate_usage_total{route="search",model=")" + model +
                                  R"(",kind=")" + kind + R"("})");
}

TEST_CASE("metrics: tokens are counted by route, model and kind; most models are `other`") {
    Rig rig;
    const auto slots = with_models(rig, {"gpt-x-mini*", "gpt-x*"});
    rig.first.count_usage(0, slots.model(1), {.input = 1, .cached = 2, .output = 3});
    rig.second.count_usage(0, slots.model(1), {.output = 4});
    rig.second.count_usage(0, slots.model(2), {.output = 5});
    rig.second.count_usage(0, slots.model(usage::PriceList::kNoRow), {.output = 6});
    rig.second.count_usage(kNoRoute, slots.model(0), {.output = 7});
    CHECK(tokens(rig, "gpt-x*") == "7");
    CHECK(tokens(rig, "gpt-x*", "cached") == "2");
    CHECK(tokens(rig, "gpt-x*", "cache_write") == "absent");
    CHECK(tokens(rig, "gpt-x-mini*") == "absent");
    CHECK(tokens(rig, "other") == "11");
    CHECK(sample(rig.text(),
                 R"(tidegate_usage_total{route="-",model="gpt-x-mini*",kind="output"})") == "7");
}

TEST_CASE("metrics: another price list has other models, and mixes no counts") {
    Rig rig;
    const auto before = with_models(rig, {"a", "b"});
    rig.first.count_usage(0, before.model(0), {.output = 1});
    rig.first.count_usage(0, before.model(1), {.output = 2});
    const auto after = with_models(rig, {"b", "c"});
    rig.first.count_usage(0, after.model(0), {.output = 10});
    rig.first.count_usage(0, after.model(1), {.output = 20});
    // A request that began before ends after.
    rig.first.count_usage(0, before.model(0), {.output = 100});
    CHECK(tokens(rig, "a") == "101");
    CHECK(tokens(rig, "b") == "12");
    CHECK(tokens(rig, "c") == "20");
}

TEST_CASE("metrics: the names of models have a bound, of one list and since the start") {
    Rig rig;
    const auto many = [](const std::string& name) {
        std::vector<std::string> models;
        for (int i = 0; i < 100; ++i) models.push_back(name + std::to_string(i));
        return models;
    };
    const auto first = with_models(rig, many("a"));
    CHECK(first.model(63) == 64);
    CHECK(first.model(64) == telemetry::kOtherModelsSlot);
    for (const char* const name : {"b", "c", "d", "e"}) with_models(rig, many(name));
    CHECK(rig.names.models.size() == telemetry::kModelSlotsMax);
    // One that was there keeps its slot; a new one has none any more.
    CHECK(with_models(rig, {"a63", "new"}).model(0) == 64);
    CHECK(with_models(rig, {"a63", "new"}).model(1) == telemetry::kOtherModelsSlot);
    rig.first.count_usage(0, telemetry::kModelSlotsMax - 1, {.output = 1});
    CHECK(rig.text().find("tidegate_usage_total{") != std::string::npos);
}

TEST_CASE("metrics: an upstream that answers with every status there is loses no count") {
    Rig rig;
    rig.first.count_request(0, Face::proxy, 429, Outcome::limited, 1ms);
    for (int round = 0; round < 2; ++round) {
        for (int status = 100; status < 600; ++status) {
            rig.first.count_request(0, Face::proxy, status, Outcome::forwarded, 1ms);
        }
    }
    rig.first.count_request(0, Face::proxy, 429, Outcome::limited, 1ms);
    const std::string text = rig.text();
    CHECK(requests(text, R"(route="search",code="429",outcome="limited")") == "2");
    CHECK(requests(text, R"(route="search",code="100",outcome="forwarded")") == "2");
    // 48 pairs: one limited and 47 statuses; each of the other 453 came twice.
    CHECK(requests(text, R"(route="search",code="146",outcome="forwarded")") == "2");
    CHECK(requests(text, R"(route="search",code="147",outcome="forwarded")") == "absent");
    CHECK(requests(text, R"(route="search",code="other",outcome="forwarded")") == "906");
}

TEST_CASE("metrics: a time on a bucket's bound falls into that bucket, buckets add up") {
    Rig rig;
    rig.first.count_request(0, Face::proxy, 200, Outcome::forwarded, 1ms);
    rig.second.count_request(0, Face::proxy, 200, Outcome::forwarded, 1ms + 1ns);
    rig.first.count_request(0, Face::proxy, 200, Outcome::forwarded, 11s);
    rig.first.count_request(0, Face::proxy, 200, Outcome::forwarded, -5ms);
    const std::string text = rig.text();
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

TEST_CASE("metrics: faults are counted by name, and the absence of one is not shown") {
    Rig rig;
    rig.first.count_fault(Fault::none);
    rig.first.count_fault(Fault::head_timeout);
    rig.second.count_fault(Fault::head_timeout);
    const std::string text = rig.text();
    const auto faults = [&](const std::string& name) {
        return sample(text, "tidegate_request_faults_total{fault=\"" + name + "\"}");
    };
    CHECK(faults("client: slow head") == "2");
    CHECK(faults("client: slow body") == "0");
    CHECK(faults("") == "absent");
}

TEST_CASE("metrics: waiting for the store is counted by the store that answered") {
    Rig rig;
    rig.first.decision_seconds[store::StoreKind::redis].observe(300us);
    const std::string text = rig.text();
    CHECK(sample(text, R"(tidegate_decision_seconds_bucket{store="redis",le="0.00025"})") == "0");
    CHECK(sample(text, R"(tidegate_decision_seconds_bucket{store="redis",le="0.0005"})") == "1");
    CHECK(sample(text, R"(tidegate_decision_seconds_count{store="memory"})") == "0");
}

TEST_CASE("metrics: bytes of bodies and tunnels, and tunnels by what ended them") {
    Rig rig;
    for (int i = 0; i < 3; ++i) rig.second.tunnels.opened.add();
    rig.second.tunnels.ended[TunnelEnd::idle].add();
    rig.second.tunnel_bytes_received.add(7);
    rig.second.tunnel_bytes_sent.add(9);
    rig.first.bytes_received.add(10);
    rig.first.bytes_sent.add(5'000'000'000);
    rig.second.bytes_received.add(1);
    rig.second.bytes_sent.add(2);
    const std::string text = rig.text();
    CHECK(sample(text, "tidegate_tunnels_open") == "2");
    CHECK(sample(text, R"(tidegate_tunnels_total{end="idle"})") == "1");
    CHECK(sample(text, R"(tidegate_tunnels_total{end="cut"})") == "0");
    CHECK(sample(text, "tidegate_tunnel_received_bytes_total") == "7");
    CHECK(sample(text, "tidegate_tunnel_sent_bytes_total") == "9");
    CHECK(sample(text, "tidegate_client_received_bytes_total") == "11");
    CHECK(sample(text, "tidegate_client_sent_bytes_total") == "5000000002");
}

TEST_CASE("metrics: a scrape while threads count sees counts that only grow") {
    Rig rig;
    constexpr int kRounds = 20'000;
    std::vector<std::thread> workers;
    for (Metrics* const metrics : {&rig.first, &rig.second}) {
        workers.emplace_back([metrics] {
            for (int i = 0; i < kRounds; ++i) {
                metrics->count_request(0, Face::proxy, 200 + i % 20, Outcome::forwarded, 1ms);
            }
        });
    }
    const std::string name = R"(tidegate_request_seconds_count{route="search"})";
    long last = 0;
    while (last < 2 * kRounds) {
        const long now = std::stol(sample(rig.text(), name));
        CHECK_GE(now, last);
        last = now;
    }
    for (auto& worker : workers) worker.join();
    CHECK(last == 2 * kRounds);
}

TEST_CASE("metrics: the dashboard's figures are those of /metrics, over all threads") {
    Rig rig;
    rig.first.count_request(0, Face::proxy, 200, Outcome::forwarded, 3ms);
    rig.second.count_request(0, Face::proxy, 429, Outcome::limited, 1ms);
    rig.second.count_request(1, Face::proxy, 503, Outcome::failed, 1ms);
    rig.second.count_request(kNoRoute, Face::proxy, 0, Outcome::aborted, 1ms);
    rig.first.count_request(kNoRoute, Face::proxy, 700, Outcome::forwarded, 1ms);
    telemetry::LiveTotals totals;
    const std::vector<const Metrics*> threads{&rig.first, &rig.second};
    Metrics::add_to(totals, threads, rig.names.routes);
    CHECK(totals.answers == std::array<std::uint64_t, 7>{0, 1, 0, 1, 1, 1, 1});
    CHECK(totals.requests() == 5);
    CHECK(totals.outcomes[static_cast<std::size_t>(Outcome::limited)] == 1);
    CHECK(totals.route_names == std::vector<std::string>{"-", "search", "login"});
    CHECK(totals.routes == std::vector<telemetry::LivePair>{{2, 0}, {2, 1}, {1, 0}});
    CHECK(totals.routes_left == 0);
    CHECK(std::accumulate(totals.request_cuts.begin(), totals.request_cuts.end(), 0U) == 5);
}

TEST_CASE("metrics: the dashboard has the routes beyond its 64 columns as one sum") {
    telemetry::NameList<std::string> names;
    for (int i = 0; i < 100; ++i) names.admit("r" + std::to_string(i));
    Metrics metrics{100};
    metrics.grow(names.size());
    for (std::size_t i = 0; i < 100; ++i) {
        metrics.count_request(i, Face::proxy, 200, Outcome::forwarded, 1ms);
        if (i >= 98) metrics.count_request(i, Face::proxy, 429, Outcome::limited, 1ms);
    }
    telemetry::LiveTotals totals;
    const std::vector<const Metrics*> threads{&metrics};
    Metrics::add_to(totals, threads, names);
    CHECK(totals.route_names.size() == 64);  // no route, and 63
    CHECK(totals.routes_left == 37);
    REQUIRE(totals.routes.size() == 65);
    CHECK(totals.routes.back() == telemetry::LivePair{39, 2});
    CHECK(totals.requests() == 102);
}

}  // namespace tidegate::proxy::metrics_test

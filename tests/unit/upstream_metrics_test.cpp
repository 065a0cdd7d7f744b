#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "unit/metrics_text.hpp"
#include "upstream/metrics.hpp"

namespace tidegate::upstream::metrics_test {

using namespace std::chrono_literals;
using test::sample;

TEST_CASE("metrics: upstreams are counted by name, unknown ones are ignored") {
    telemetry::NameList<std::string> names;
    names.admit("api");
    Metrics metrics{100};
    metrics.grow(names.size());
    for (const std::size_t slot : {std::size_t{0}, std::size_t{7}, telemetry::kNoSlot}) {
        metrics.count_upstream(slot, 20ms);
        metrics.count_upstream_queue(slot, 20ms);
        metrics.count_upstream_failure(slot);
    }
    const std::string text = test::text_of(metrics, names);
    CHECK(sample(text, R"(tidegate_upstream_seconds_count{upstream="api"})") == "1");
    CHECK(sample(text, R"(tidegate_upstream_queue_seconds_count{upstream="api"})") == "1");
    CHECK(sample(text, R"(tidegate_upstream_failures_total{upstream="api"})") == "1");
}

TEST_CASE("metrics: connections that are open are those opened and not closed, over all threads") {
    Metrics first{1};
    Metrics second{1};
    first.connections.opened.add();
    second.connections.opened.add();
    second.connections.closed.add();
    const std::string text = test::text_of({&first, &second}, telemetry::NameList<std::string>());
    CHECK(sample(text, "tidegate_upstream_connections") == "1");
    CHECK(sample(text, "tidegate_upstream_connections_total") == "2");
}

TEST_CASE("metrics: servers and queues are shown as they are when scraped") {
    const std::vector<UpstreamStatus> upstreams{{.upstream = "api",
                                                 .servers = {{.server = "10.0.0.7:3000",
                                                              .configured = "api.internal:3000",
                                                              .health = ServerHealth::ejected,
                                                              .active = 3,
                                                              .requests = 4,
                                                              .failures = 5,
                                                              .ejections = 6}},
                                                 .unresolved = {},
                                                 .names_failing = 2,
                                                 .queued = 7}};
    telemetry::Exposition out;
    write_metrics(out, upstreams);
    const std::string text = out.text();
    const std::string labels = R"({upstream="api",server="10.0.0.7:3000"})";
    CHECK(sample(text, "tidegate_upstream_server_up" + labels) == "0");
    CHECK(sample(text, "tidegate_upstream_server_active" + labels) == "3");
    CHECK(sample(text, "tidegate_upstream_server_requests_total" + labels) == "4");
    CHECK(sample(text, "tidegate_upstream_server_failures_total" + labels) == "5");
    CHECK(sample(text, "tidegate_upstream_server_ejections_total" + labels) == "6");
    CHECK(sample(text, R"(tidegate_upstream_queue_length{upstream="api"})") == "7");
    CHECK(sample(text, R"(tidegate_upstream_names_failing{upstream="api"})") == "2");
}

}  // namespace tidegate::upstream::metrics_test

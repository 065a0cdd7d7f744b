#include <array>
#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "app/metrics.hpp"
#include "store/memory_store.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::app::metrics_test {

namespace {

using namespace std::chrono_literals;
using telemetry::MetricNames;
using telemetry::MetricSlots;
using telemetry::Outcome;
using test::sample;

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

std::string requests(const std::string& text, const std::string& labels) {
    return sample(text, "tidegate_requests_total{" + labels + ",face=\"proxy\"}");
}

TEST_CASE("metrics: the store is up when no worker sees it down") {
    MetricsRegistry metrics(some_names(), 3, "1");
    CHECK(metrics.store_is_up());
    metrics.worker(1).store.state.set(store::StoreState::down);
    CHECK_FALSE(metrics.store_is_up());
    std::string text = metrics.serialize({});
    CHECK(sample(text, R"(tidegate_store_state{state="up"})") == "2");
    CHECK(sample(text, R"(tidegate_store_state{state="down"})") == "1");
    metrics.worker(1).store.state.set(store::StoreState::up);
    CHECK(metrics.store_is_up());
}

TEST_CASE("metrics: gauges and the build show what they were given") {
    const MetricsRegistry metrics(some_names(), 1, "1.2.3");
    const store::MemoryStore store{store::MemoryStore::Options{}};
    const std::string text =
        metrics.serialize({.memory_store = &store,
                           .store_timeout = 250ms,
                           .process = {.access_log_dropped = {{9}}, .config_generation = {{2}}}});
    CHECK(sample(text, "tidegate_store_timeout_seconds") == "0.25");
    CHECK(sample(metrics.serialize({}), "tidegate_store_timeout_seconds") == "absent");
    CHECK(sample(text, "tidegate_memory_store_keys") == "0");
    CHECK(sample(text, "tidegate_memory_store_evictions_total") == "0");
    CHECK(sample(text, "tidegate_access_log_dropped_total") == "9");
    CHECK(sample(text, "tidegate_config_generation") == "2");
    CHECK(sample(text, R"(tidegate_build_info{version="1.2.3"})") == "1");
    CHECK(std::stod(sample(text, "process_start_time_seconds")) > 1.6e9);
}

TEST_CASE("metrics: what became of spans is shown once something was traced") {
    const MetricsRegistry metrics(some_names(), 1, "1.2.3");
    CHECK(metrics.serialize({}).find("tidegate_trace") == std::string::npos);
    Gauges gauges;
    gauges.traced_spans = TracedSpans{.exported = 7, .dropped = {1, 2, 3, 4, 5}};
    const std::string text = metrics.serialize(gauges);
    const std::string dropped = "tidegate_trace_spans_dropped_total{reason=\"";
    CHECK(sample(text, "tidegate_trace_spans_exported_total") == "7");
    CHECK(sample(text, dropped + "queue_full\"}") == "1");
    CHECK(sample(text, dropped + "unreachable\"}") == "2");
    CHECK(sample(text, dropped + "refused\"}") == "3");
    CHECK(sample(text, dropped + "rejected\"}") == "4");
    CHECK(sample(text, dropped + "stopped\"}") == "5");
}

TEST_CASE("metrics: names from the configuration cannot break out of their label") {
    const MetricsRegistry metrics(routes({"a\"} 1\nb\\"}), 1, "1");
    const std::string text = metrics.serialize({});
    CHECK(sample(text, R"(tidegate_request_seconds_count{route="a\"} 1\nb\\"})") == "0");
}

TEST_CASE("metrics: a configuration without policies and upstreams is served all the same") {
    const MetricsRegistry metrics({}, 1, "1");
    const std::string text = metrics.serialize({});
    CHECK(text.find("tidegate_decisions_total") == std::string::npos);
    CHECK(sample(text, R"(tidegate_request_seconds_count{route="-"})") == "0");
}

TEST_CASE("metrics: another configuration's names are added, and those that were there count on") {
    MetricsRegistry metrics(some_names(), 2, "1");
    const MetricSlots before = *metrics.admit(some_names());
    metrics.worker(0).proxy.count_request(before.route(0), Face::proxy, 200, Outcome::forwarded,
                                          1ms);
    metrics.worker(0).ask.count_decision(before.decision(1, 0), true);
    metrics.worker(0).upstream.count_upstream_failure(before.upstream(0));

    MetricNames other{.routes = {"files", "search"},
                      .policies = {{"strict", {"hour", "minute"}}},
                      .upstreams = {"web", "api"}};
    const MetricSlots after = *metrics.admit(other);
    metrics.worker(1).proxy.count_request(after.route(1), Face::proxy, 200, Outcome::forwarded,
                                          1ms);
    metrics.worker(1).proxy.count_request(after.route(0), Face::proxy, 200, Outcome::forwarded,
                                          1ms);
    metrics.worker(1).ask.count_decision(after.decision(0, 1), true);
    metrics.worker(1).upstream.count_upstream_failure(after.upstream(1));
    // A request that began before ends after.
    metrics.worker(0).proxy.count_request(before.route(1), Face::proxy, 200, Outcome::forwarded,
                                          1ms);

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

TEST_CASE("metrics: names that would be too many are refused, and none of them is added") {
    MetricsRegistry metrics(some_names(), 1, "1");
    MetricNames many;
    for (std::size_t i = 0; i < MetricsRegistry::kNamesMax - 6; ++i) {
        many.routes.push_back("r" + std::to_string(i));
    }
    REQUIRE(metrics.admit(many).has_value());  // with the six of before: all there may be
    CHECK(metrics.admit(some_names()).has_value());
    const auto refused = metrics.admit(routes({"search", "one more"}));
    REQUIRE(refused.has_error());
    CHECK(refused.error().find("10001 names") != std::string::npos);
    CHECK(metrics.serialize({}).find("one more") == std::string::npos);
    metrics.worker(0).proxy.count_request(metrics.admit(many)->route(9'000), Face::proxy, 200,
                                          Outcome::forwarded, 1ms);
    CHECK(requests(metrics.serialize({}), R"(route="r9000",code="200",outcome="forwarded")") ==
          "1");
}

TEST_CASE("metrics: the first configuration may have more names than others could add") {
    MetricNames many;
    for (std::size_t i = 0; i <= MetricsRegistry::kNamesMax; ++i) {
        many.routes.push_back("r" + std::to_string(i));
    }
    MetricsRegistry metrics(many, 1, "1");
    CHECK(metrics.admit(many)->route(MetricsRegistry::kNamesMax) == MetricsRegistry::kNamesMax);
    CHECK_FALSE(metrics.admit(routes({"other"})).has_value());
}

TEST_CASE("metrics: names are added and scraped while a thread counts") {
    MetricsRegistry metrics(some_names(), 1, "1");
    const MetricSlots first = *metrics.admit(some_names());
    std::thread counting([&] {
        for (int i = 0; i < 20'000; ++i) {
            metrics.worker(0).proxy.count_request(first.route(1), Face::proxy, 200,
                                                  Outcome::forwarded, 1ms);
            metrics.worker(0).ask.count_decision(first.decision(0, 0), false);
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

TEST_CASE("metrics: fetched keys are shown by their place, with their age once they have one") {
    const MetricsRegistry metrics(some_names(), 1, "1");
    Gauges gauges;
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
    MetricsRegistry metrics(some_names(), 1, "1");
    Gauges gauges;
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

TEST_CASE("metrics: every metric is listed once, with the names and texts that Prometheus wants") {
    std::set<std::string> names;
    for (const telemetry::MetricInfo& metric : all_metrics()) {
        const std::string name(metric.name);
        CAPTURE(name);
        CHECK(names.insert(name).second);
        CHECK((name.starts_with("tidegate_") || name.starts_with("process_")));
        CHECK(name.ends_with("_total") == (metric.type == telemetry::MetricType::counter));
        CHECK_FALSE(metric.help.empty());
        CHECK_FALSE(metric.help.ends_with('.'));
        CHECK((metric.note.empty() || metric.note.ends_with('.')));
        for (const telemetry::MetricLabel& label : metric.labels) {
            CHECK_FALSE(label.name.empty());
            CHECK((label.notes.empty() || label.notes.size() == label.values.size()));
        }
    }
}

TEST_CASE("metrics: the list has every metric that is shown, also those without a sample") {
    const MetricsRegistry metrics(some_names(), 1, "1");
    std::set<std::string> listed;
    for (const telemetry::MetricInfo& metric : all_metrics()) listed.emplace(metric.name);
    std::istringstream lines(metrics.serialize({}));
    const std::string begin = "# HELP ";
    std::size_t shown = 0;
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(begin)) continue;
        ++shown;
        CHECK(listed.contains(
            line.substr(begin.size(), line.find(' ', begin.size()) - begin.size())));
    }
    CHECK(shown > 0);
    CHECK(listed.contains("tidegate_jwks_keys"));
    CHECK(listed.contains("tidegate_trace_spans_dropped_total"));
}

}  // namespace

namespace {

using namespace std::chrono_literals;
using test::sample;

constexpr const char* kStat =
    "4711 (tidegate) S 1 4711 4711 0 -1 4194560 9000 0 3 0 250 150 0 0 20 0 7 0 123456 "
    "104857600 2560 18446744073709551615 1 1 0 0 0 0 0 4096 17442 0 0 0 17 1 0 0 0 0 0\n";

TEST_CASE("process metrics: /proc/self/stat is read by the places of its fields") {
    const auto stat = read_process_stat(kStat, 100, 4096);
    REQUIRE(stat);
    CHECK(stat->cpu_seconds == 4.0);
    CHECK(stat->threads == 7);
    CHECK(stat->virtual_bytes == 104'857'600);
    CHECK(stat->resident_bytes == 2560 * 4096);
}

TEST_CASE("process metrics: a program's name may hold spaces and brackets") {
    std::string text = kStat;
    text.replace(text.find("tidegate"), 8, "a) S 9 (b c");
    const auto stat = read_process_stat(text, 100, 4096);
    REQUIRE(stat);
    CHECK(stat->threads == 7);
}

TEST_CASE("process metrics: a file that is cut or has other fields gives no figures") {
    const std::string text = kStat;
    const std::size_t needed = text.find(" 18446744073709551615");
    for (std::size_t size = 0; size < needed - 4; ++size) {
        CHECK_FALSE(read_process_stat(text.substr(0, size), 100, 4096));
    }
    CHECK(read_process_stat(text.substr(0, needed), 100, 4096));
    std::string other = text;
    other.replace(other.find(" 250 "), 5, " x50 ");
    CHECK_FALSE(read_process_stat(other, 100, 4096));
}

TEST_CASE("process metrics: a running process shows all of them") {
    telemetry::Exposition out;
    write_process_metrics(out, std::chrono::system_clock::time_point(1'700'000'000'500ms));
    const std::string text = out.text();
    CHECK(sample(text, "process_start_time_seconds") == "1700000000.5");
    for (const char* name :
         {"process_cpu_seconds_total", "process_threads", "process_virtual_memory_bytes",
          "process_resident_memory_bytes", "process_open_fds", "process_max_fds"}) {
        CAPTURE(name);
        REQUIRE(sample(text, name) != "absent");
        CHECK(std::stod(sample(text, name)) >= 0);
    }
    CHECK(std::stod(sample(text, "process_open_fds")) >= 3);
    CHECK(std::stod(sample(text, "process_threads")) >= 1);
    CHECK(text.find("# TYPE process_cpu_seconds_total counter") != std::string::npos);
}

TEST_CASE("process metrics: a thread's time is shown by its number while the thread runs") {
    ThreadClock never;
    ThreadClock own;
    std::promise<void> has_begun;
    std::promise<void> may_end;
    std::thread thread([&] {
        own.begin();
        has_begun.set_value();
        may_end.get_future().wait();
    });
    has_begun.get_future().wait();
    const std::array<const ThreadClock*, 2> clocks{&never, &own};
    telemetry::Exposition running;
    write_thread_metrics(running, clocks);
    const std::string text = running.text();
    CHECK(sample(text, R"(tidegate_thread_cpu_seconds_total{thread="0"})") == "absent");
    CHECK(sample(text, R"(tidegate_thread_cpu_seconds_total{thread="1"})") != "absent");
    may_end.set_value();
    thread.join();
    // The kernel forgets a thread a moment after it is joined.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (own.used() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    CHECK_FALSE(own.used());
}

}  // namespace

}  // namespace tidegate::app::metrics_test

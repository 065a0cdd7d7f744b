#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/metric.hpp"
#include "telemetry/metric_members.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::telemetry::metric_test {

using namespace std::chrono_literals;
using test::has_line;
using test::sample;

namespace {

TEST_CASE("exposition: a family has its help, its type and a line for each sample") {
    Exposition out;
    const auto requests = out.family({.name = "requests_total",
                                      .help = "Requests by code",
                                      .labels = {{.name = "code"}, {.name = "face"}}});
    requests.add({"200", "proxy"}, 7);
    requests.add({"404", "proxy"}, 1);
    out.family({.name = "open", .type = MetricType::gauge, .help = "Open ones"}).add({}, -2);
    const std::string text = out.text();
    CHECK(has_line(text, "# HELP requests_total Requests by code"));
    CHECK(has_line(text, "# TYPE requests_total counter"));
    CHECK(sample(text, R"(requests_total{code="200",face="proxy"})") == "7");
    CHECK(sample(text, R"(requests_total{code="404",face="proxy"})") == "1");
    CHECK(has_line(text, "# TYPE open gauge"));
    CHECK(sample(text, "open") == "-2");
}

TEST_CASE("exposition: a metric without a sample is no line, but is known") {
    Exposition out;
    out.family({.name = "nothing_total", .help = "Nothing"});
    CHECK(out.metrics().at(0).name == "nothing_total");
    CHECK(out.text().empty());
}

TEST_CASE("exposition: no value of a label ends its quotes or its line") {
    Exposition out;
    out.family({.name = "named",
                .type = MetricType::gauge,
                .help = "Names",
                .labels = {{.name = "name"}}})
        .add({"a\"} 1\nforged 2\\"}, 1);
    const std::string text = out.text();
    CHECK(has_line(text, R"(named{name="a\"} 1\nforged 2\\"} 1)"));
    CHECK(sample(text, "forged") == "absent");
}

TEST_CASE("exposition: large counts keep every digit that a double can") {
    Exposition out;
    out.family({.name = "bytes_total", .help = "Bytes"}).add({}, 9'007'199'254'740'991);
    CHECK(sample(out.text(), "bytes_total") == "9007199254740991");
}

inline constexpr std::array<nanoseconds, 2> kTwoBounds{1ms, 10ms};

TEST_CASE("exposition: the histograms of threads are one, whose buckets add up") {
    using Times = Histogram<kTwoBounds>;
    Times first;
    Times second;
    first.observe(500us);
    first.observe(1ms);
    second.observe(5ms);
    second.observe(2s);
    const std::array<const Times*, 2> threads{&first, &second};
    Exposition out;
    out.family({.name = "took_seconds",
                .type = MetricType::histogram,
                .help = "How long",
                .labels = {{.name = "store"}}})
        .add({"redis"}, merge<kTwoBounds>(Threads<Times>(threads), std::identity()));
    const std::string text = out.text();
    CHECK(has_line(text, "# TYPE took_seconds histogram"));
    CHECK(sample(text, R"(took_seconds_bucket{store="redis",le="0.001"})") == "2");
    CHECK(sample(text, R"(took_seconds_bucket{store="redis",le="0.01"})") == "3");
    CHECK(sample(text, R"(took_seconds_bucket{store="redis",le="+Inf"})") == "4");
    CHECK(sample(text, R"(took_seconds_count{store="redis"})") == "4");
    CHECK(std::stod(sample(text, R"(took_seconds_sum{store="redis"})")) == doctest::Approx(2.0065));
}

TEST_CASE(
    "exposition: connections that close during a scrape make no negative number of open ones") {
    OpenCounter connections;
    connections.closed.add(2);
    connections.opened.add(1);
    const std::array<const OpenCounter*, 1> threads{&connections};
    CHECK(sum_open(Threads<OpenCounter>(threads)).open == 0);
}

}  // namespace

BOOST_DEFINE_FIXED_ENUM_CLASS(Reason, std::uint8_t, late, broken)

inline constexpr std::array<nanoseconds, 1> kBound{1ms};

struct Members {
    Metric<Counter, "hits_total", "Hits", "See [caches](caches.md)."> hits;
    Metric<By<"reason", Reason>, "failures_total", "Failures by reason"> failures;
    Metric<By<"reason", Reason, Histogram<kBound>>, "wait_seconds", "Waits by reason"> waits;
    OpenMetrics<"open", "Open ones", "open_total", "Ever opened"> open;

    static void write(Exposition& out, Threads<Members> threads) {
        write_members<Members>(out, threads);
    }
};

static_assert(sizeof(Members) == 8 * (1 + 2 + 2 * 3 + 2), "an object holds its counters only");

TEST_CASE("metric: every member is written, with the sum of all threads") {
    Members first;
    Members second;
    first.hits.add();
    second.hits.add(2);
    second.failures[Reason::broken].add();
    first.waits[Reason::late].observe(500us);
    first.open.opened.add(3);
    first.open.closed.add();
    const std::string text = test::text_of({&first, &second});
    CHECK(has_line(text, "# HELP hits_total Hits"));
    CHECK(sample(text, "hits_total") == "3");
    CHECK(sample(text, R"(failures_total{reason="late"})") == "0");
    CHECK(sample(text, R"(failures_total{reason="broken"})") == "1");
    CHECK(has_line(text, "# TYPE wait_seconds histogram"));
    CHECK(sample(text, R"(wait_seconds_bucket{reason="late",le="0.001"})") == "1");
    CHECK(sample(text, R"(wait_seconds_count{reason="broken"})") == "0");
    CHECK(sample(text, "open") == "2");
    CHECK(sample(text, "open_total") == "3");
}

TEST_CASE("metric: members are written once, in the order of their declaration") {
    Exposition out;
    write_members<Members>(out, Threads<Members>());
    std::vector<std::string> names;
    for (const MetricInfo& metric : out.metrics()) names.emplace_back(metric.name);
    CHECK(names == std::vector<std::string>{"hits_total", "failures_total", "wait_seconds", "open",
                                            "open_total"});
}

TEST_CASE("metric: a metric by an enumeration knows all values of its label") {
    const MetricInfo failures = decltype(Members::failures)::info();
    REQUIRE(failures.labels.size() == 1);
    CHECK(failures.labels[0].name == "reason");
    CHECK(std::vector<std::string>(failures.labels[0].values.begin(),
                                   failures.labels[0].values.end()) ==
          std::vector<std::string>{"late", "broken"});
    CHECK(decltype(Members::hits)::info().note == "See [caches](caches.md).");
}

struct Figures {
    Metric<Figure<MetricType::gauge, double>, "age_seconds", "Age"> age{};
    Metric<By<"result", Reason, Figure<MetricType::counter>>, "tries_total", "Tries"> tries{};
};

TEST_CASE("metric: a figure is shown as it was read") {
    Figures figures;
    figures.age.value = 1.5;
    figures.tries[Reason::broken].value = 7;
    const Figures* const one = &figures;
    Exposition out;
    write_members<Figures>(out, Threads<Figures>(&one, 1));
    const std::string text = out.text();
    CHECK(has_line(text, "# TYPE age_seconds gauge"));
    CHECK(sample(text, "age_seconds") == "1.5");
    CHECK(has_line(text, "# TYPE tries_total counter"));
    CHECK(sample(text, R"(tries_total{reason="late"})") == "absent");
    CHECK(sample(text, R"(tries_total{result="broken"})") == "7");
}

struct Row {
    Metric<ByName<"upstream">, "sent_total", "Sent"> sent;
    Metric<ByName<"upstream", By<"reason", Reason>>, "lost_total", "Lost by reason"> lost;
};

struct Rows {
    std::array<Row, 2> at;
};

TEST_CASE("metric: rows of a table are written by their names, a metric at a time") {
    NameList<std::string> names;
    names.admit("api");
    names.admit("web");
    Rows first;
    Rows second;
    first.at[1].sent.add(4);
    second.at[1].sent.add(5);
    second.at[0].lost[Reason::broken].add();
    const std::array<const Rows*, 2> threads{&first, &second};
    Exposition out;
    write_rows<Row>(out, Threads<Rows>(threads), names,
                    [](const Rows& one, std::size_t slot) -> const Row& { return one.at[slot]; });
    const std::string text = out.text();
    CHECK(sample(text, R"(sent_total{upstream="api"})") == "0");
    CHECK(sample(text, R"(sent_total{upstream="web"})") == "9");
    CHECK(sample(text, R"(lost_total{upstream="api",reason="broken"})") == "1");
    CHECK(sample(text, R"(lost_total{upstream="web",reason="late"})") == "0");
    CHECK(text.find("# HELP sent_total") < text.find("# HELP lost_total"));
}

}  // namespace tidegate::telemetry::metric_test

#include <array>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "telemetry/exposition.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::telemetry::exposition_test {
namespace {

using namespace std::chrono_literals;
using test::has_line;
using test::sample;

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
}  // namespace tidegate::telemetry::exposition_test

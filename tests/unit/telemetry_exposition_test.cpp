#include <array>
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
    auto requests = out.counter("requests_total", "Requests by code");
    requests.add({{"code", "200"}, {"face", "proxy"}}, std::uint64_t{7});
    requests.add({{"code", "404"}, {"face", "proxy"}}, std::uint64_t{1});
    out.gauge("open", "Open ones").add({}, -2);
    const std::string text = out.text();
    CHECK(has_line(text, "# HELP requests_total Requests by code"));
    CHECK(has_line(text, "# TYPE requests_total counter"));
    CHECK(sample(text, R"(requests_total{code="200",face="proxy"})") == "7");
    CHECK(sample(text, R"(requests_total{code="404",face="proxy"})") == "1");
    CHECK(has_line(text, "# TYPE open gauge"));
    CHECK(sample(text, "open") == "-2");
}

TEST_CASE("exposition: a family without a sample is left out") {
    Exposition out;
    out.counter("nothing_total", "Nothing");
    CHECK(out.text().empty());
}

TEST_CASE("exposition: no value of a label ends its quotes or its line") {
    Exposition out;
    out.gauge("named", "Names").add({{"name", "a\"} 1\nforged 2\\"}}, 1);
    const std::string text = out.text();
    CHECK(has_line(text, R"(named{name="a\"} 1\nforged 2\\"} 1)"));
    CHECK(sample(text, "forged") == "absent");
}

TEST_CASE("exposition: large counts keep every digit that a double can") {
    Exposition out;
    out.counter("bytes_total", "Bytes").add({}, std::uint64_t{9'007'199'254'740'991});
    CHECK(sample(out.text(), "bytes_total") == "9007199254740991");
}

inline constexpr std::array<nanoseconds, 2> kTwoBounds{1ms, 10ms};

struct Timed {
    Histogram<kTwoBounds> seconds;
};

TEST_CASE("exposition: the histograms of threads are one, whose buckets add up") {
    Timed first;
    Timed second;
    first.seconds.observe(500us);
    first.seconds.observe(1ms);
    second.seconds.observe(5ms);
    second.seconds.observe(2s);
    const std::array<const Timed*, 2> threads{&first, &second};
    Exposition out;
    out.histogram("took_seconds", "How long")
        .add({{"store", "redis"}}, merge<kTwoBounds>(
                                       Threads<Timed>(threads), [
                                       ](const Timed& one) -> const auto& { return one.seconds; }));
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
    struct Opened {
        OpenCounter connections;
    } thread;
    thread.connections.closed.add(2);
    thread.connections.opened.add(1);
    const std::array<const Opened*, 1> threads{&thread};
    CHECK(sum_open(Threads<Opened>(threads), &Opened::connections).open == 0);
}

}  // namespace
}  // namespace tidegate::telemetry::exposition_test

// What a line of the access log costs the thread that serves the request: to make it, and with the
// way to its writer.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "telemetry/access_log.hpp"

namespace tidegate::telemetry {
namespace {

using namespace std::chrono_literals;

const std::vector<std::string_view> kIdentifiers{"ip:203.0.113.7", "user:alice"};

RequestRecord a_request() {
    RequestRecord record;
    record.time = std::chrono::system_clock::time_point(1'721'642'400'042'999us);
    record.request_id = "7af5918c8d3ce53fca09282ebd9052a0";
    record.client = "203.0.113.7";
    record.method = "GET";
    record.path = "/v1/search";
    record.host = "api.example.com";
    record.route = "search";
    record.identifiers = kIdentifiers;
    record.verdict = "admitted";
    record.store = "redis";
    record.upstream = "10.0.0.5:3000";
    record.status = 200;
    record.bytes_sent = 345;
    record.duration = 1'234'567ns;
    record.decision = 210'000ns;
    record.upstream_time = 873'000ns;
    return record;
}

void make_lines(benchmark::State& state, std::string_view path) {
    RequestRecord record = a_request();
    record.path = path;
    LogLineFormatter formatter;
    for (auto _ : state) benchmark::DoNotOptimize(formatter.json(record).size());
}

void line(benchmark::State& state) {
    make_lines(state, "/v1/search");
}
void line_of_a_long_path(benchmark::State& state) {
    make_lines(state, std::string(1'000, 'a'));
}
// Nothing of which goes as it is.
void line_of_a_hostile_path(benchmark::State& state) {
    make_lines(state, std::string(1'000, '\x01'));
}
BENCHMARK(line);
BENCHMARK(line_of_a_long_path);
BENCHMARK(line_of_a_hostile_path);

// The writer is another thread, whose time does not count here; it must keep up, else what is
// measured is dropping.
void write(benchmark::State& state) {
    AccessLog log({.path = "/dev/null"}, 1);
    const RequestRecord record = a_request();
    for (auto _ : state) log.write(0, record);
    state.counters["dropped"] = static_cast<double>(log.dropped());
}
BENCHMARK(write);

}  // namespace
}  // namespace tidegate::telemetry

BENCHMARK_MAIN();

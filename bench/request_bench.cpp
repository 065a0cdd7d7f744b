// The cost of the steps of a request that never wait: heads read and written, identity, the charge
// for the store. In the world of the tests, where no socket is open.
#define DOCTEST_CONFIG_IMPLEMENT  // that world checks what it makes; there are no test cases here
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>

#include "unit/proxy_world.hpp"

namespace tidegate::proxy {
namespace {

// curl's, and a browser's.
constexpr std::string_view kShort =
    "GET /v1/items/42?fields=id,name HTTP/1.1\r\n"
    "Host: api.example\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n";
constexpr std::string_view kLong =
    "GET /v1/items/42?fields=id,name HTTP/1.1\r\n"
    "Host: api.example\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
    "Accept: application/json, text/plain, */*\r\n"
    "Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n"
    "Accept-Encoding: gzip, deflate, br, zstd\r\n"
    "Referer: https://app.example/items\r\n"
    "Origin: https://app.example\r\n"
    "Connection: keep-alive\r\n"
    "Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=dark\r\n"
    "Sec-Fetch-Dest: empty\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Site: same-site\r\n\r\n";
constexpr std::string_view kAnswer =
    "HTTP/1.1 200 OK\r\nServer: api/2.1\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\n"
    "Content-Type: application/json\r\nContent-Length: 100\r\n"
    "Cache-Control: no-cache\r\nETag: \"33a64df5\"\r\n\r\n";

const std::string kPlain = "upstream: http://127.0.0.1:3000\n";
const std::string kLimited = kPlain + "limits: [100/s, 1000/min, 20000/h]\n";
const std::string kBehindProxies = kPlain +
                                   "identity: {client_ip: {trusted_proxies: [203.0.113.0/24, "
                                   "10.0.0.0/8]}}\n";

void read_head(benchmark::State& state, std::string_view bytes) {
    const http::HeadBounds bounds;
    http::RequestHead head;
    for (auto _ : state) {
        http::HeadScanner scanner;
        const std::size_t size = scanner.scan(bytes, bounds);
        const auto fault = http::parse_request_head(bytes.substr(0, size), bounds, head);
        if (fault != http::HeadFault::none) state.SkipWithError("refused");
        benchmark::DoNotOptimize(head);
    }
    state.counters["bytes"] = static_cast<double>(bytes.size());
}
BENCHMARK_CAPTURE(read_head, curl, kShort);
BENCHMARK_CAPTURE(read_head, browser, kLong);

void read_answer_head(benchmark::State& state) {
    const http::HeadBounds bounds;
    http::ResponseHead head;
    for (auto _ : state) {
        http::HeadScanner scanner;
        const std::size_t size = scanner.scan(kAnswer, bounds);
        const auto fault = http::parse_response_head(kAnswer.substr(0, size), bounds, head);
        if (fault != http::HeadFault::none) state.SkipWithError("refused");
        benchmark::DoNotOptimize(head);
    }
    state.counters["bytes"] = static_cast<double>(kAnswer.size());
}
BENCHMARK(read_answer_head);

void write_request_head(benchmark::State& state, std::string_view bytes) {
    World world(kPlain);
    Request request(world, std::string(bytes));
    if (request.decide() != Fault::none) state.SkipWithError("refused");
    const std::string authority = "127.0.0.1:3000";
    std::string out;
    for (auto _ : state) {
        out.clear();
        append_request_head(request.exchange, authority, out);
        benchmark::DoNotOptimize(out);
    }
    state.counters["bytes"] = static_cast<double>(out.size());
}
BENCHMARK_CAPTURE(write_request_head, curl, kShort);
BENCHMARK_CAPTURE(write_request_head, browser, kLong);

// With the RateLimit fields.
void write_answer_head(benchmark::State& state, const std::string& yaml) {
    World world(yaml);
    Request request(world, std::string(kShort));
    Exchange& exchange = request.exchange;
    request.charge();
    http::parse_response_head(kAnswer, {}, exchange.relay.answer);
    http::response_framing(exchange.relay.answer, false, exchange.upstream.framing);
    std::string out;
    for (auto _ : state) {
        out.clear();
        append_answer_head(exchange, http::BodyKind::length, out);
        benchmark::DoNotOptimize(out);
    }
    state.counters["bytes"] = static_cast<double>(out.size());
}
BENCHMARK_CAPTURE(write_answer_head, no_limits, kPlain);
BENCHMARK_CAPTURE(write_answer_head, three_limits, kLimited);

void identify(benchmark::State& state, const std::string& yaml, const std::string& fields) {
    ask::World world(yaml);
    ask::Request request(world, get(fields), true);
    ask::match_route(*world.rules.config, request.facts, request.decision);
    for (auto _ : state) {
        ask::identify(world.rules, request.facts, request.decision);
        benchmark::DoNotOptimize(request.decision.client);
    }
}
BENCHMARK_CAPTURE(identify, peer, kPlain, "");
BENCHMARK_CAPTURE(identify, two_trusted_hops, kBehindProxies,
                  "X-Forwarded-For: 198.51.100.7, 10.1.2.3, 10.4.5.6\r\n");

// Routing, identity, identifiers and the items of the charge: all steps before the store.
void decide_up_to_the_store(benchmark::State& state) {
    ask::World world(kLimited);
    ask::Request request(world, std::string(kLong));
    for (auto _ : state) {
        request.decision.reset();
        if (request.decide() != Fault::none) state.SkipWithError("refused");
    }
}
BENCHMARK(decide_up_to_the_store);

}  // namespace
}  // namespace tidegate::proxy

int main(int argc, char** argv) {
    doctest::Context context;  // for what that world checks
    context.setAsDefaultForAssertsOutOfTestCases();
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
}

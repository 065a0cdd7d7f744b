// What the steps of a request cost that need no waiting: heads read and written, who is asking,
// what is asked of the store, the record. In the world of the tests, where no socket is open.
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
    if (request.walk() != Fault::none) state.SkipWithError("refused");
    const std::string authority = "127.0.0.1:3000";
    std::string out;
    for (auto _ : state) {
        out.clear();
        append_request_head(request.client, request.exchange, authority, out);
        benchmark::DoNotOptimize(out);
    }
    state.counters["bytes"] = static_cast<double>(out.size());
}
BENCHMARK_CAPTURE(write_request_head, curl, kShort);
BENCHMARK_CAPTURE(write_request_head, browser, kLong);

// With the fields that tell the client where it stands.
void write_answer_head(benchmark::State& state, const std::string& yaml) {
    World world(yaml);
    Request request(world, std::string(kShort));
    if (request.walk() != Fault::none) state.SkipWithError("refused");
    Exchange& exchange = request.exchange;
    if (!exchange.decision.items.empty()) {
        Wakeup nobody(world.io.get_executor());  // in process nothing is waited for
        world.limiter.decide(exchange.decision, nobody);
        judge(world.worker, exchange);
    }
    http::parse_response_head(kAnswer, {}, exchange.answer);
    http::response_framing(exchange.answer, false, exchange.answer_framing);
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

void who_is_asking(benchmark::State& state, const std::string& yaml, const std::string& fields) {
    World world(yaml);
    Request request(world, get(fields), true);
    match_route(request.exchange);
    for (auto _ : state) {
        identify(request.client, request.exchange);
        benchmark::DoNotOptimize(request.exchange.client);
    }
}
BENCHMARK_CAPTURE(who_is_asking, peer, kPlain, "");
BENCHMARK_CAPTURE(who_is_asking, two_trusted_hops, kBehindProxies,
                  "X-Forwarded-For: 198.51.100.7, 10.1.2.3, 10.4.5.6\r\n");

// Routing, identity, identifiers and the items of the question: all before the store is asked.
void walk_to_the_store(benchmark::State& state) {
    World world(kLimited);
    Request request(world, std::string(kLong));
    for (auto _ : state) {
        request.exchange.decision.items.clear();
        request.exchange.spans.clear();
        request.exchange.identifiers.clear();
        if (request.walk() != Fault::none) state.SkipWithError("refused");
    }
}
BENCHMARK(walk_to_the_store);

}  // namespace
}  // namespace tidegate::proxy

int main(int argc, char** argv) {
    doctest::Context context;  // for what that world checks
    context.setAsDefaultForAssertsOutOfTestCases();
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
}

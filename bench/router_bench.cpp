// The cost of finding the route of a request among 10, 100 and 1,000.
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "routing/router.hpp"

namespace tidegate::routing {
namespace {

// An API of so many resources: half are named by a literal path, half by one with an id in it.
Router router_of(std::int64_t routes) {
    Router router;
    for (std::int64_t i = 0; i < routes; ++i) {
        Match match;
        match.path = "/v1/resource" + std::to_string(i) + (i % 2 == 0 ? "" : "/{id}/edit");
        if (!router.add(match)) throw std::runtime_error("not a pattern: " + match.path);
    }
    return router;
}

void find(benchmark::State& state, const std::string& path, MatchOutcome outcome) {
    const Router router = router_of(state.range(0));
    const http::Fields fields{{http::FieldName::host, "Host", "api.example"}};
    const RequestLine request{"GET", path, "api.example", &fields};
    if (router.match(request).outcome != outcome) throw std::runtime_error("another outcome");
    for (auto _ : state) benchmark::DoNotOptimize(router.match(request));
}

void last_route(benchmark::State& state) {
    find(state, "/v1/resource" + std::to_string(state.range(0) - 1) + "/42/edit",
         MatchOutcome::matched);
}
void no_route(benchmark::State& state) {
    find(state, "/v1/something/else", MatchOutcome::no_route);
}
// Read once more, decoded.
void encoded_path(benchmark::State& state) {
    find(state, "/v1/resource" + std::to_string(state.range(0) - 1) + "/4%32/edit",
         MatchOutcome::matched);
}
BENCHMARK(last_route)->Arg(10)->Arg(100)->Arg(1'000);
BENCHMARK(no_route)->Arg(10)->Arg(100)->Arg(1'000);
BENCHMARK(encoded_path)->Arg(10)->Arg(100)->Arg(1'000);

// Routes that differ in nothing but the method or host are compared one after the other.
void same_path_many_hosts(benchmark::State& state) {
    Router router;
    for (std::int64_t i = 0; i < state.range(0); ++i) {
        Match match;
        match.path = "/v1/items";
        match.host = "tenant" + std::to_string(i) + ".example";
        if (!router.add(match)) throw std::runtime_error("not a pattern");
    }
    const std::string host = "tenant" + std::to_string(state.range(0) - 1) + ".example";
    const http::Fields fields{{http::FieldName::host, "Host", host}};
    const RequestLine request{"GET", "/v1/items", host, &fields};
    if (router.match(request).outcome != MatchOutcome::matched) throw std::runtime_error("no");
    for (auto _ : state) benchmark::DoNotOptimize(router.match(request));
}
BENCHMARK(same_path_many_hosts)->Arg(10)->Arg(100)->Arg(1'000);

}  // namespace
}  // namespace tidegate::routing

BENCHMARK_MAIN();

// The cost of counting the most frequent names, for the thread that serves the request: an add.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "telemetry/top_and_denials.hpp"

namespace tidegate::telemetry {
namespace {

constexpr std::size_t kNamesKept = 1'024;
constexpr std::size_t kStream = 1 << 16;

// `number_of(random)` chooses the name.
template <class NumberOf>
std::vector<std::string> stream_of(NumberOf number_of) {
    std::mt19937_64 random(1);
    std::vector<std::string> stream;
    stream.reserve(kStream);
    for (std::size_t i = 0; i < kStream; ++i) {
        stream.push_back("user:" + std::to_string(number_of(random)));
    }
    return stream;
}

void add(benchmark::State& state, const std::vector<std::string>& stream) {
    SpaceSaving names(kNamesKept, 1);
    std::size_t at = 0;
    for (auto _ : state) names.add(stream[at++ % kStream]);
}

void few_names(benchmark::State& state) {
    add(state, stream_of([](auto& random) { return random() % 200; }));
}
// Half of the requests are of a few clients, the other half of some of many.
void skewed_names(benchmark::State& state) {
    add(state, stream_of([](auto& random) {
            const std::uint64_t number = random();
            return number % 2 == 0 ? number / 2 % 8 : number / 2 % 100'000;
        }));
}
// Each name is new.
void flood_of_names(benchmark::State& state) {
    std::uint64_t next = 0;
    add(state, stream_of([&next](auto&) { return ++next; }));
}
BENCHMARK(few_names);
BENCHMARK(skewed_names);
BENCHMARK(flood_of_names);

}  // namespace
}  // namespace tidegate::telemetry

BENCHMARK_MAIN();

// What a charge costs in process.
#include <chrono>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "store/charge_script.hpp"
#include "store/memory_store.hpp"

namespace tidegate {
namespace {

using namespace std::chrono_literals;

// The windows of the smallest configuration, wide enough or narrow enough for the case.
limit::Policy three_windows(std::int64_t quota) {
    limit::Policy policy;
    policy.name = "default";
    policy.key = {limit::Key::ip, limit::Key::user};
    for (limit::Micros duration : {limit::Micros{1s}, limit::Micros{1min}, limit::Micros{1h}}) {
        limit::LimitSpec spec;
        spec.quota = quota;
        spec.duration = duration;
        policy.limits.push_back(*limit::make_limit(spec));
    }
    return policy;
}

// Identifiers of so many clients, asked in turn.
std::vector<std::string> names_of(const std::string& kind, std::int64_t clients) {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < clients; ++i) names.push_back(kind + std::to_string(i));
    return names;
}

void charge(benchmark::State& state, std::size_t identifiers, std::int64_t quota) {
    const limit::Policy policy = three_windows(quota);
    store::MemoryStore store{store::MemoryStore::Options{}};
    const auto addresses = names_of("ip:203.0.113.", state.range(0));
    const auto users = names_of("user:", state.range(0));
    limit::Micros now{1'700'000'000'000'000};
    limit::Verdict verdict;
    std::size_t next = 0;
    for (auto _ : state) {
        const limit::ChargeItem items[] = {{&policy, addresses[next]}, {&policy, users[next]}};
        store.charge({{items, identifiers}, 1}, now, verdict);
        benchmark::DoNotOptimize(verdict);
        now += 20us;
        if (++next == addresses.size()) next = 0;
    }
}

constexpr std::int64_t kPlenty = 4'000'000'000;

void one_identifier(benchmark::State& state) {
    charge(state, 1, kPlenty);
}
void two_identifiers(benchmark::State& state) {
    charge(state, 2, kPlenty);
}
void two_identifiers_denied(benchmark::State& state) {
    charge(state, 2, 1);
}
BENCHMARK(one_identifier)->Arg(1)->Arg(1'000)->Arg(100'000);
BENCHMARK(two_identifiers)->Arg(1)->Arg(1'000)->Arg(100'000);
BENCHMARK(two_identifiers_denied)->Arg(1)->Arg(1'000);

void redis_command(benchmark::State& state) {
    const limit::Policy policy = three_windows(kPlenty);
    const limit::ChargeItem items[] = {{&policy, "ip:203.0.113.7"}, {&policy, "user:alice"}};
    std::string out;
    for (auto _ : state) {
        out.clear();
        store::append_charge_command({items, 1}, "tg:", std::nullopt, out);
        benchmark::DoNotOptimize(out);
    }
}
BENCHMARK(redis_command);

}  // namespace
}  // namespace tidegate

BENCHMARK_MAIN();

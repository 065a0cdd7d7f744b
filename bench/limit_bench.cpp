// The cost of a charge in process.
#include <malloc.h>

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
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip),
                  limit::single_key(limit::KeyPart::Kind::user)};
    for (limit::Micros duration : {limit::Micros{1s}, limit::Micros{1min}, limit::Micros{1h}}) {
        limit::LimitSpec spec;
        spec.quota = quota;
        spec.duration = duration;
        policy.limits.push_back(*limit::make_limit(spec));
    }
    return policy;
}

// Identifiers of so many clients, charged in turn.
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

// One limit of an algorithm for one identifier. Slots are given up again.
void one_limit(benchmark::State& state, limit::Algorithm algorithm) {
    limit::LimitSpec spec;
    spec.algorithm = algorithm;
    spec.duration = limit::Micros{1s};
    spec.quota =
        algorithm == limit::Algorithm::sliding_log || algorithm == limit::Algorithm::schedule
            ? 1'000
            : 100'000;
    limit::Policy policy = three_windows(kPlenty);
    if (algorithm == limit::Algorithm::schedule) spec.horizon = 1min;
    policy.limits = {*limit::make_limit(spec)};
    store::MemoryStore store{store::MemoryStore::Options{}};
    limit::Micros now{1'700'000'000'000'000};
    limit::Verdict verdict;
    const limit::ChargeItem item{&policy, "ip:203.0.113.7"};
    std::uint64_t request = 0;
    for (auto _ : state) {
        const limit::Charge charge{
            .items = {&item, 1}, .cost = 1, .slot_hold = {1, ++request}, .moment = now + 30s};
        store.charge(charge, now, verdict);
        if (algorithm == limit::Algorithm::concurrency) store.release(charge);
        benchmark::DoNotOptimize(verdict);
        now += 2ms;
    }
}
BENCHMARK_CAPTURE(one_limit, sliding_window, limit::Algorithm::sliding_window);
BENCHMARK_CAPTURE(one_limit, fixed_window, limit::Algorithm::fixed_window);
BENCHMARK_CAPTURE(one_limit, sliding_log, limit::Algorithm::sliding_log);
BENCHMARK_CAPTURE(one_limit, gcra, limit::Algorithm::gcra);
BENCHMARK_CAPTURE(one_limit, leaky_bucket, limit::Algorithm::leaky_bucket);
BENCHMARK_CAPTURE(one_limit, schedule, limit::Algorithm::schedule);
BENCHMARK_CAPTURE(one_limit, concurrency, limit::Algorithm::concurrency);

// What a million identifiers take with three windows, one unit each: allocated bytes, each.
void a_million_identifiers(benchmark::State& state) {
    constexpr std::int64_t kIdentifiers = 1'000'000;
    const limit::Policy policy = three_windows(kPlenty);
    const auto names = names_of("ip:203.0.113.", kIdentifiers);
    limit::Verdict verdict;
    for (auto _ : state) {
        const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
        store::MemoryStore store{store::MemoryStore::Options{.max_keys = 2 * kIdentifiers}};
        for (const std::string& name : names) {
            const limit::ChargeItem item{&policy, name};
            store.charge({{&item, 1}, 1}, limit::Micros{1'700'000'000'000'000}, verdict);
        }
        const std::size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
        state.counters["bytes_each"] =
            static_cast<double>(after - before) / static_cast<double>(kIdentifiers);
    }
}
BENCHMARK(a_million_identifiers)->Iterations(1)->Unit(benchmark::kMillisecond);

void redis_command(benchmark::State& state) {
    const limit::Policy policy = three_windows(kPlenty);
    const limit::ChargeItem items[] = {{&policy, "ip:203.0.113.7"}, {&policy, "user:alice"}};
    const limit::Charge charge{items, 1};
    std::string out;
    for (auto _ : state) {
        out.clear();
        store::append_charge_command({&charge, 1}, "tg:", std::nullopt, out);
        benchmark::DoNotOptimize(out);
    }
}
BENCHMARK(redis_command);

}  // namespace
}  // namespace tidegate

BENCHMARK_MAIN();

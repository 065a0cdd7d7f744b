// What a decision by Redis costs here, besides its way there and back: the command is written, the
// answer read.
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "store/charge_script.hpp"

namespace tidegate {
namespace {

using namespace std::chrono_literals;

// So many windows, the longest an hour.
limit::Policy windows(std::int64_t count) {
    limit::Policy policy;
    policy.name = "default";
    for (std::int64_t i = 0; i < count; ++i) {
        limit::LimitSpec spec;
        spec.quota = 1'000;
        spec.duration = limit::Micros{1h} / (i + 1);
        policy.limits.push_back(*limit::make_limit(spec));
    }
    return policy;
}

// Two identifiers, as `ip` and `user` of one request.
struct Question {
    explicit Question(std::int64_t limits) : policy(windows(limits)) {}
    limit::Charge charge() const { return {items, 1, {1, 2}}; }

    limit::Policy policy;
    std::vector<limit::ChargeItem> items{{&policy, "ip:203.0.113.7"}, {&policy, "user:alice"}};
};

std::string number(double value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

// What the script answers when all is admitted (lua/charge.lua): its time, the verdict, and how
// each limit of each item stood.
std::string reply_to(const limit::Charge& charge) {
    std::string reply = number(1.7e15) + '\3' + number(0);
    for (const limit::ChargeItem& item : charge.items) {
        reply += number(1);
        for (std::size_t i = 0; i < item.limits().size(); ++i) {
            reply += number(5) + number(1.7e15 + 1'000);
        }
    }
    return reply;
}

void write_command(benchmark::State& state) {
    const Question question(state.range(0));
    const limit::Charge charge = question.charge();
    std::string out;
    for (auto _ : state) {
        out.clear();
        store::append_charge_command({&charge, 1}, "tg:", {}, out);
        benchmark::DoNotOptimize(out);
    }
    state.counters["bytes"] = static_cast<double>(out.size());
}
BENCHMARK(write_command)->Arg(1)->Arg(3)->Arg(20);

void read_reply(benchmark::State& state) {
    const Question question(state.range(0));
    const limit::Charge charge = question.charge();
    const std::string reply = reply_to(charge);
    limit::Verdict verdict;
    limit::Verdict* const verdicts[] = {&verdict};
    for (auto _ : state) {
        if (!store::read_charge_reply(reply, {&charge, 1}, verdicts)) {
            throw std::runtime_error("not read");
        }
        benchmark::DoNotOptimize(verdict);
    }
    state.counters["bytes"] = static_cast<double>(reply.size());
}
BENCHMARK(read_reply)->Arg(1)->Arg(3)->Arg(20);

}  // namespace
}  // namespace tidegate

BENCHMARK_MAIN();

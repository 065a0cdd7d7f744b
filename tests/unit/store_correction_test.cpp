#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "store/correction.hpp"
#include "store/limiter.hpp"
#include "store/process_clock.hpp"
#include "unit/script_reply.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_redis.hpp"

namespace tidegate::store::correction_test {
namespace {

using namespace std::chrono_literals;
using limit::ChargeItem;
using test::packed;
using test::script_reply;
using test::Words;
using Result = LimitDecision::Result;

constexpr std::string_view kUser = "user:alice";

limit::Policy of_name(std::string name, std::int64_t quota) {
    return test::policy(std::move(name), {test::window(quota, 1h)});
}

// Requests and tokens of one user.
struct Budget {
    Budget() { tokens.index = 1; }

    limit::Policy requests = of_name("requests", 1'000);
    limit::Policy tokens = of_name("tokens", 10'000);

    void ask(LimitDecision& decision, std::int64_t reserved) const {
        decision.items = {{&requests, kUser}, {&tokens, kUser}};
        decision.items[1].own_cost = reserved;
        decision.needs_settling = true;
    }
};

struct InProcess {
    std::int64_t counted(const limit::Policy& policy) {
        const ChargeItem item{&policy, kUser};
        return memory.count({&item, 1}, process_now()).items.at(0).limits.at(0).counted;
    }

    asio::io_context io;
    MemoryStore memory{MemoryStore::Options{}};
    Metrics metrics;
    Limiter limiter{memory, metrics};
    Wakeup sleeper{io.get_executor()};
    LimitDecision decision;
    Budget budget;
};

// Answers to charges of two items, alone or several, and to all other commands.
std::string answer(const Words& words) {
    static const Budget budget;
    static const std::array<ChargeItem, 1> alone{{{&budget.tokens, kUser}}};
    const bool is_charge = words.at(1) == charge_script({}).sha1 ||
                           words.at(1) == charge_script({.items = alone}).sha1;
    return is_charge ? script_reply(true, 0, {0, 0}) : std::string(":0\r\n");
}

// No command may time out: a machine that is busy stops the process for longer than the fixture's
// 60 ms, and what was decided without Redis is corrected without it.
struct Rig : test::RedisFixture {
    Rig() : RedisFixture(all_scripts(), 100, 10s) {
        server.evalsha = answer;
        limiter.emplace(
            memory,
            Limiter::RedisParts{.store = {client, "tg:"}, .replicas = &replicas, .freed = &freed},
            metrics);
        run();
        await_up(true);
    }
    ~Rig() { stop(); }

    void decide(LimitDecision& decision, std::int64_t reserved) {
        budget.ask(decision, reserved);
        limiter->decide(decision, sleeper);
        CHECK(wait([&] { return decision.result != Result::pending; }));
        REQUIRE(decision.result == Result::admitted);
    }
    void correct(LimitDecision& decision, std::int64_t tokens) {
        const std::array<std::int64_t, 2> used{-1, tokens};
        limiter->correct(decision, used);
        limiter->settle(decision, 200);
    }
    std::vector<Words> commands_of(const redis::Script& script) const {
        std::vector<Words> found;
        for (const Words& words : server.seen) {
            if (words.front() == "EVALSHA" && words.at(1) == script.sha1) found.push_back(words);
        }
        return found;
    }

    Replicas replicas{1};
    FreedIdentifiers freed;
    MemoryStore memory{MemoryStore::Options{}};
    std::optional<Limiter> limiter;
    Wakeup sleeper{io.get_executor()};
    LimitDecision decision;
    Budget budget;
};

// The units of the first limit of state number `state` in ARGV[1] of lua/give_back.lua, where each
// state has one limit.
double given_back(const Words& words, std::size_t state) {
    const std::string& argument = words.at(3 + std::stoul(words.at(2)));
    constexpr std::size_t kState = 8 + 1 + 4 + 1 + 32;
    double units = 0;
    std::memcpy(&units, argument.data() + 1 + state * kState + 8 + 1 + 4 + 1 + 16, sizeof units);
    return units;
}

}  // namespace

TEST_CASE("correct: less comes back, more is taken above the quota, and -1 stays") {
    InProcess rig;
    const auto decide = [&](std::int64_t tokens) {
        rig.budget.ask(rig.decision, tokens);
        rig.limiter.decide(rig.decision, rig.sleeper);
        return rig.decision.result;
    };
    const auto correct = [&](std::int64_t requests, std::int64_t tokens) {
        const std::array<std::int64_t, 2> used{requests, tokens};
        rig.limiter.correct(rig.decision, used);
        rig.limiter.settle(rig.decision, 200);
    };
    CHECK(decide(9'000) == Result::admitted);
    CHECK(rig.counted(rig.budget.tokens) == 9'000);
    correct(-1, 2'000);
    CHECK(rig.counted(rig.budget.tokens) == 2'000);
    CHECK(rig.counted(rig.budget.requests) == 1);
    CHECK(decide(8'000) == Result::admitted);
    correct(-1, 12'000);
    CHECK(rig.counted(rig.budget.tokens) == 14'000);
    CHECK(rig.counted(rig.budget.requests) == 2);
    CHECK(decide(1) == Result::limited);
    CHECK(rig.decision.verdict.limits.at(1).denied);
    CHECK(rig.counted(rig.budget.requests) == 2);
}

TEST_CASE("correct: nothing used gives back all, as if the request had never come") {
    InProcess rig;
    rig.budget.ask(rig.decision, 500);
    rig.limiter.decide(rig.decision, rig.sleeper);
    const std::array<std::int64_t, 2> used{0, 0};
    rig.limiter.correct(rig.decision, used);
    CHECK(rig.counted(rig.budget.tokens) == 0);
    CHECK(rig.counted(rig.budget.requests) == 0);
}

TEST_CASE("correct: a denial and a policy in shadow that denied have taken nothing") {
    InProcess rig;
    rig.budget.tokens.shadow = true;
    rig.budget.ask(rig.decision, 20'000);
    rig.limiter.decide(rig.decision, rig.sleeper);
    REQUIRE(rig.decision.result == Result::admitted);
    REQUIRE_FALSE(rig.decision.verdict.shadow_admitted);
    const std::array<std::int64_t, 2> used{3, 30'000};
    rig.limiter.correct(rig.decision, used);
    CHECK(rig.counted(rig.budget.tokens) == 0);
    CHECK(rig.counted(rig.budget.requests) == 3);
    rig.budget.tokens.shadow = false;
    rig.budget.ask(rig.decision, 20'000);
    rig.limiter.decide(rig.decision, rig.sleeper);
    REQUIRE(rig.decision.result == Result::limited);
    rig.limiter.correct(rig.decision, used);
    CHECK(rig.counted(rig.budget.tokens) == 0);
}

TEST_CASE("correct: an item that was asked at 0 takes what it cost") {
    InProcess rig;
    rig.budget.ask(rig.decision, 0);
    rig.limiter.decide(rig.decision, rig.sleeper);
    const std::array<std::int64_t, 2> used{-1, 700};
    rig.limiter.correct(rig.decision, used);
    CHECK(rig.counted(rig.budget.tokens) == 700);
}

TEST_CASE("soft: above its quota a request passes and counts, and the verdict says so") {
    InProcess rig;
    rig.budget.tokens.soft = true;
    const auto decide = [&](std::int64_t tokens) {
        rig.budget.ask(rig.decision, tokens);
        rig.limiter.decide(rig.decision, rig.sleeper);
        CHECK(rig.decision.result == Result::admitted);
        CHECK(rig.decision.verdict.shadow_admitted);
        return rig.decision.verdict.limits.at(1).denied;
    };
    CHECK_FALSE(decide(10'000));
    CHECK(decide(5'000));
    CHECK(decide(1));
    CHECK(rig.counted(rig.budget.tokens) == 15'001);
    CHECK(rig.decision.verdict.limits.at(1).remaining == 0);
}

TEST_CASE("correct: the corrections of one turn are one command to Redis, also of one state") {
    Rig rig;
    std::array<LimitDecision, 3> decisions;
    for (LimitDecision& one : decisions) rig.decide(one, 1'000);
    rig.correct(decisions[0], 100);
    rig.correct(decisions[1], 300);
    rig.correct(decisions[2], 0);
    CHECK(rig.wait([&] { return !rig.commands_of(give_back_script()).empty(); }));
    const auto commands = rig.commands_of(give_back_script());
    REQUIRE(commands.size() == 1);
    CHECK(commands[0].at(2) == "3");
    for (std::size_t i = 3; i < 6; ++i) CHECK(commands[0].at(i) == "tg:4:tokens:{user:alice}");
    CHECK(given_back(commands[0], 0) == 900);
    CHECK(given_back(commands[0], 1) == 700);
    CHECK(given_back(commands[0], 2) == 1'000);
}

TEST_CASE("correct: a correction leaves with the next charge, ahead of it") {
    Rig rig;
    rig.decide(rig.decision, 1'000);
    rig.server.seen.clear();
    rig.server.by_read.clear();
    rig.correct(rig.decision, 100);
    LimitDecision next;
    rig.decide(next, 1'000);
    REQUIRE(rig.server.seen.size() == 2);
    CHECK(rig.server.by_read == std::vector<std::size_t>{2});
    CHECK(rig.server.seen.front().at(1) == give_back_script().sha1);
}

TEST_CASE("correct: what is denied before Redis has carried a correction out is not remembered") {
    Rig rig;
    rig.decide(rig.decision, 1'000);
    const std::array<ChargeItem, 1> items{{{&rig.budget.tokens, kUser}}};
    const SteadyTime before = std::chrono::steady_clock::now();
    rig.correct(rig.decision, 100);
    CHECK(rig.freed.any(items, before));
    const SteadyTime between = std::chrono::steady_clock::now();
    CHECK_FALSE(rig.freed.any(items, between));
    CHECK(rig.wait([&] { return rig.freed.any(items, between); }));
    CHECK(rig.commands_of(give_back_script()).size() == 1);
}

TEST_CASE("correct: charges with costs of their own share a command, each with its receipt") {
    Rig rig;
    std::array<LimitDecision, 8> decisions;
    rig.server.evalsha = [](const Words& words) {
        if (words.at(1) != charge_script({}).sha1) return std::string(":0\r\n");
        return script_reply({true, true, true, true, false, true, true, true}, 1'000, {0, 9'999});
    };
    for (std::size_t i = 0; i < decisions.size(); ++i) {
        rig.budget.ask(decisions[i], i == 4 ? 20'000 : 0);
        rig.limiter->decide(decisions[i], rig.sleeper);
    }
    CHECK(rig.wait([&] { return decisions.back().result != Result::pending; }));
    CHECK(rig.commands_of(charge_script({})).size() == 1);
    for (std::size_t i = 0; i < decisions.size(); ++i) {
        CAPTURE(i);
        const bool admitted = i != 4;
        CHECK(decisions[i].result == (admitted ? Result::admitted : Result::limited));
        const auto& generations = decisions[i].verdict.receipt.generations;
        CHECK(generations == std::vector<std::uint64_t>{admitted ? 7U : 0U, 0U});
    }
}

TEST_CASE("correct: what Redis certainly has not got is sent when it is back, and only that") {
    Rig rig;
    std::array<LimitDecision, 3> decisions;
    for (LimitDecision& one : decisions) rig.decide(one, 1'000);
    SUBCASE("Redis is away") {
        rig.server.refuse();
        rig.await_up(false);
        for (LimitDecision& one : decisions) rig.correct(one, 400);
        rig.limiter->report_local(std::chrono::steady_clock::now());
        CHECK(rig.commands_of(give_back_script()).empty());
        rig.server.listen();
        rig.await_up(true);
        rig.limiter->report_local(std::chrono::steady_clock::now() + 2s);
        CHECK(rig.wait([&] { return !rig.commands_of(give_back_script()).empty(); }));
        rig.limiter->report_local(std::chrono::steady_clock::now() + 4s);
        rig.decide(rig.decision, 1);
        const auto commands = rig.commands_of(give_back_script());
        REQUIRE(commands.size() == 1);
        CHECK(commands[0].at(2) == "3");
        CHECK(given_back(commands[0], 1) == 600);
    }
    SUBCASE("Redis may have got it") {
        rig.server.evalsha = [&](const Words& words) {
            if (words.at(1) == give_back_script().sha1) {
                rig.server.hang_up();
                return std::string();
            }
            return answer(words);
        };
        for (LimitDecision& one : decisions) rig.correct(one, 400);
        CHECK(rig.wait([&] { return !rig.commands_of(give_back_script()).empty(); }));
        rig.await_up(true);
        rig.limiter->report_local(std::chrono::steady_clock::now() + 2s);
        rig.decide(rig.decision, 1);
        CHECK(rig.commands_of(give_back_script()).size() == 1);
    }
    SUBCASE("Redis refuses") {
        rig.server.evalsha = [](const Words& words) {
            return words.at(1) == give_back_script().sha1 ? std::string("-ERR no\r\n")
                                                          : answer(words);
        };
        rig.correct(decisions[0], 400);
        for (int i = 1; i <= 5; ++i) {
            rig.decide(rig.decision, 1);
            rig.limiter->report_local(std::chrono::steady_clock::now() + i * 5s);
        }
        rig.decide(rig.decision, 1);
        CHECK(rig.commands_of(give_back_script()).size() == 3);
    }
}

TEST_CASE("correct: a command that Redis was not ready for is sent again until it is, once") {
    for (const std::string error :
         {"-OOM no", "-READONLY no", "-LOADING no", "-BUSY no", "-MISCONF no", "-CLUSTERDOWN no",
          "-TRYAGAIN no", "-MASTERDOWN no", "-NOREPLICAS no",
          "-ERR Error running script (call to f_1): @user_script:1: -READONLY no"}) {
        CAPTURE(error);
        Rig rig;
        std::array<LimitDecision, 3> decisions;
        for (LimitDecision& one : decisions) rig.decide(one, 1'000);
        std::string said = error + "\r\n";
        rig.server.evalsha = [&](const Words& words) {
            return words.at(1) == give_back_script().sha1 ? said : answer(words);
        };
        for (LimitDecision& one : decisions) rig.correct(one, 400);
        const auto sent = [&](std::size_t count) {
            return rig.wait([&] { return rig.commands_of(give_back_script()).size() == count; });
        };
        auto now = std::chrono::steady_clock::now();
        for (std::size_t times = 1; times <= 5; ++times) {
            CHECK(sent(times));
            CHECK(rig.wait([&] { return rig.limiter->is_idle() && rig.client->is_up(); }));
            CHECK(rig.limiter->has_unsent_refunds());
            if (times == 5) said = ":0\r\n";
            rig.limiter->report_local(now += 2s);
            rig.limiter->report_local(now += 2s);
        }
        CHECK(sent(6));
        CHECK(rig.wait([&] { return rig.limiter->is_idle(); }));
        CHECK_FALSE(rig.limiter->has_unsent_refunds());
        for (const Words& words : rig.commands_of(give_back_script())) CHECK(words.at(2) == "3");
        rig.limiter->report_local(now += 2s);
        rig.decide(rig.decision, 1);
        CHECK(rig.commands_of(give_back_script()).size() == 6);
    }
}

TEST_CASE("correct: refunds that wait for Redis end after a day") {
    Rig rig;
    rig.decide(rig.decision, 1'000);
    rig.server.evalsha = [](const Words& words) {
        return words.at(1) == give_back_script().sha1 ? "-OOM no\r\n" : answer(words);
    };
    rig.correct(rig.decision, 400);
    CHECK(rig.wait([&] { return rig.limiter->has_unsent_refunds(); }));
    rig.limiter->report_local(std::chrono::steady_clock::now());
    rig.limiter->report_local(std::chrono::steady_clock::now() + 25h);
    CHECK_FALSE(rig.limiter->has_unsent_refunds());
    CHECK(rig.limiter->is_idle());
}

namespace {

std::vector<std::string> names_of_reports(const Rig& rig) {
    std::vector<std::string> names;
    for (const Words& words : rig.commands_of(report_once_script())) names.push_back(words.at(4));
    return names;
}

// The units of a report of one portion: the time, how many portions, when the first began, units.
std::uint32_t reported_units(const Words& told) {
    CHECK(told.at(3) == "tg:4:tokens:{user:alice}");
    REQUIRE(told.at(6).size() == 8 + 2 + 8 + 4);
    std::uint32_t units = 0;
    std::memcpy(&units, told.at(6).data() + 18, sizeof units);
    return units;
}

}  // namespace

TEST_CASE("correct: what a request cost more is kept while Redis is not ready, and told once") {
    Rig rig;
    rig.decide(rig.decision, 1'000);
    std::string said = "-OOM no\r\n";
    rig.server.evalsha = [&](const Words& words) {
        return words.at(1) == report_once_script().sha1 ? said : answer(words);
    };
    rig.correct(rig.decision, 1'300);
    auto now = std::chrono::steady_clock::now();
    for (std::size_t times = 1; times <= 6; ++times) {
        CHECK(rig.wait([&] { return names_of_reports(rig).size() == times; }));
        CHECK(rig.wait([&] { return rig.limiter->is_idle(); }));
        CHECK(rig.limiter->owed() == 1);
        if (times == 6) said = "$2\r\n+1\r\n";
        rig.limiter->report_local(now += 2s);
        rig.limiter->report_local(now += 2s);
    }
    CHECK(rig.wait([&] { return names_of_reports(rig).size() == 7; }));
    CHECK(rig.wait([&] { return rig.limiter->is_idle(); }));
    CHECK(rig.limiter->owed() == 0);
    CHECK(reported_units(rig.commands_of(report_once_script()).back()) == 300);
    CHECK(rig.metrics_have("tidegate_local_reports_total{result=\"reported\"} 1"));
    CHECK(rig.metrics_have("tidegate_local_reports_total{result=\"refused\"} 0"));
}

TEST_CASE("correct: a report whose answer was lost keeps its name, whatever comes between") {
    Rig rig;
    rig.decide(rig.decision, 1'000);
    std::string said;  // silence, and then the connection ends
    rig.server.evalsha = [&](const Words& words) {
        if (words.at(1) != report_once_script().sha1) return answer(words);
        if (said.empty()) rig.server.hang_up();
        return said;
    };
    rig.correct(rig.decision, 1'300);
    auto now = std::chrono::steady_clock::now();
    for (const char* next : {"-OOM no\r\n", "-ERR no\r\n", "-READONLY no\r\n", "", "$1\r\n1\r\n"}) {
        const std::size_t before = names_of_reports(rig).size();
        CHECK(rig.wait([&] { return rig.limiter->is_idle() && rig.client->is_up(); }));
        CHECK(rig.limiter->owed() == 1);
        said = next;
        rig.limiter->report_local(now += 2s);
        rig.limiter->report_local(now += 2s);
        CHECK(rig.wait([&] { return names_of_reports(rig).size() == before + 1; }));
    }
    CHECK(rig.wait([&] { return rig.limiter->is_idle() && rig.limiter->owed() == 0; }));
    const auto names = names_of_reports(rig);
    CHECK(names.size() == 6);
    CHECK(names == std::vector<std::string>(names.size(), names.front()));
}

TEST_CASE("correct: the thread is idle once Redis has answered to each correction") {
    Rig rig;
    std::array<LimitDecision, 2> decisions;
    for (LimitDecision& one : decisions) rig.decide(one, 1'000);
    CHECK(rig.limiter->is_idle());
    rig.server.evalsha = [](const Words&) { return ""; };
    rig.correct(decisions[0], 400);
    CHECK_FALSE(rig.limiter->is_idle());
    CHECK(rig.wait([&] { return !rig.commands_of(give_back_script()).empty(); }));
    CHECK_FALSE(rig.limiter->is_idle());
    rig.server.say(":0\r\n");
    CHECK(rig.wait([&] { return rig.limiter->is_idle(); }));
    rig.correct(decisions[1], 1'300);
    CHECK_FALSE(rig.limiter->is_idle());
    CHECK(rig.limiter->owed() == 0);
    CHECK(rig.wait([&] { return !rig.commands_of(report_once_script()).empty(); }));
    CHECK_FALSE(rig.limiter->is_idle());
    rig.server.say("$2\r\n+1\r\n");
    CHECK(rig.wait([&] { return rig.limiter->is_idle(); }));
}

TEST_CASE("correct: what a request cost more is reported at once, also after an outage") {
    Rig rig;
    rig.decide(rig.decision, 1'000);
    const auto reported = [&](std::size_t count) {
        REQUIRE(rig.wait([&] { return rig.commands_of(report_once_script()).size() == count; }));
        return reported_units(rig.commands_of(report_once_script()).back());
    };
    rig.correct(rig.decision, 1'300);
    CHECK(reported(1) == 300);
    rig.decide(rig.decision, 1'000);
    rig.server.refuse();
    rig.await_up(false);
    rig.correct(rig.decision, 5'000);
    rig.limiter->report_local(std::chrono::steady_clock::now());
    rig.server.listen();
    rig.await_up(true);
    rig.limiter->report_local(std::chrono::steady_clock::now() + 2s);
    CHECK(reported(2) == 4'000);
}

TEST_CASE("correct: what was decided without Redis is corrected in process and in the report") {
    Rig rig;
    rig.server.refuse();
    rig.await_up(false);
    rig.decide(rig.decision, 1'000);
    REQUIRE(rig.decision.decided_by == StoreKind::local);
    rig.correct(rig.decision, 600);
    rig.decide(rig.decision, 1'000);
    rig.correct(rig.decision, 1'500);
    const ChargeItem item{&rig.budget.tokens, kUser};
    const Counts counts = rig.memory.count({&item, 1}, process_now());
    CHECK(counts.items.at(0).limits.at(0).counted == 2'100);
    rig.server.listen();
    rig.await_up(true);
    rig.limiter->report_local(std::chrono::steady_clock::now() + 2s);
    CHECK(rig.wait([&] { return rig.commands_of(report_script()).size() == 2; }));
    std::uint32_t sum = 0;
    for (const Words& told : rig.commands_of(report_script())) {
        if (told.at(3) != "tg:4:tokens:{user:alice}") continue;
        std::memcpy(&sum, told.at(5).data() + 18, sizeof sum);
    }
    CHECK(sum == 2'100);
    CHECK(rig.commands_of(give_back_script()).empty());
}

TEST_CASE("correct: a policy that the failure policy left out is not corrected") {
    Rig rig;
    rig.budget.tokens.on_store_failure = limit::OnStoreFailure::allow;
    rig.server.refuse();
    rig.await_up(false);
    rig.decide(rig.decision, 1'000);
    REQUIRE(rig.decision.decided().size() == 1);
    rig.correct(rig.decision, 600);
    const ChargeItem item{&rig.budget.tokens, kUser};
    CHECK(rig.memory.count({&item, 1}, process_now()).items.at(0).limits.at(0).counted == 0);
}

}  // namespace tidegate::store::correction_test

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/limiter.hpp"
#include "store/process_clock.hpp"
#include "unit/script_reply.hpp"
#include "unit/store_limiter_rig.hpp"

namespace tidegate::store::limiter_test {
namespace {

using namespace std::chrono_literals;
using limit::OnStoreFailure;
using test::mixed_reply;
using test::script_reply;
using test::Words;
using Result = LimitDecision::Result;
using Rig = LimiterRig;

// A limiter without Redis.
struct InProcess {
    asio::io_context io;
    MemoryStore memory{MemoryStore::Options{}};
    Metrics metrics;
    Limiter limiter{memory, metrics};
    Wakeup sleeper{io.get_executor()};
    LimitDecision decision;
};

}  // namespace

TEST_CASE("limiter: without Redis the memory store decides at once") {
    InProcess rig;
    LimitDecision& decision = rig.decision;
    const auto one = policy("one", 1, OnStoreFailure::deny);
    decision.items = {{&one, "ip:192.0.2.1"}};
    rig.limiter.decide(decision, rig.sleeper);
    CHECK(decision.result == Result::admitted);
    CHECK(decision.decided_by == StoreKind::memory);
    CHECK_FALSE(decision.store_failed);
    rig.limiter.decide(decision, rig.sleeper);
    CHECK(decision.result == Result::limited);
    CHECK(decision.verdict.limits.at(0).denied);
}

TEST_CASE("limiter: the verdict is that of the script, and nothing is counted in process") {
    Rig rig;
    rig.run();
    const auto some = policy("some", 5, OnStoreFailure::local);
    rig.server.evalsha = [](const Words&) { return script_reply(true, 0, {0}); };
    CHECK(rig.decide({&some}) == Result::admitted);
    CHECK(rig.decision.verdict.limits.at(0).remaining == 4);
    rig.server.evalsha = [](const Words&) { return script_reply(false, 1'000, {5}); };
    CHECK(rig.decide({&some}) == Result::limited);
    CHECK(rig.decision.verdict.retry_after == 1ms);
    CHECK_FALSE(rig.decision.remembered);
    CHECK(rig.decision.decided_by == StoreKind::redis);
    CHECK_FALSE(rig.decision.store_failed);
    CHECK(rig.decision.decided().size() == 1);
    CHECK(rig.memory.keys() == 0);
    CHECK(rig.server.count("EVALSHA") == 2);
}

TEST_CASE("limiter: each way to fail is counted under its name and falls back once") {
    Rig rig(100, kSoon);
    rig.run();
    const auto open = policy("open", 5, OnStoreFailure::allow);
    std::string reason;
    SUBCASE("an error") {
        rig.server.evalsha = [](const Words&) { return "-READONLY replica\r\n"; };
        reason = "refused";
    }
    SUBCASE("an answer that makes no sense") {
        rig.server.evalsha = [](const Words&) { return "$3\r\nyes\r\n"; };
        reason = "protocol";
    }
    SUBCASE("an answer of another kind") {
        rig.server.evalsha = [](const Words&) { return "*1\r\n:1\r\n"; };
        reason = "protocol";
    }
    SUBCASE("silence") {
        rig.server.evalsha = [](const Words&) { return ""; };
        reason = "timeout";
    }
    SUBCASE("the end of the connection") {
        rig.server.evalsha = [&](const Words&) {
            rig.server.hang_up();
            return "";
        };
        reason = "disconnected";
    }
    CHECK(rig.decide({&open}) == Result::admitted);
    CHECK(rig.decision.store_failed);
    CHECK(rig.decision.decided_by == StoreKind::local);
    CHECK(rig.counted(reason, 1));
    CHECK(rig.server.count("EVALSHA") == 1);
}

TEST_CASE(
    "limiter: a caller in a hurry is decided without a store that hangs, and hurts no other") {
    Rig rig(100, 10s);
    rig.run();
    rig.await_up(true);
    rig.server.evalsha = [](const Words&) { return ""; };
    const auto open = policy("open", 5, OnStoreFailure::allow);
    const auto asked = std::chrono::steady_clock::now();
    // Enough for the first to reach the server under a sanitizer on a busy machine.
    rig.decision.needed_by = asked + 1s;
    for (int i = 0; i < 8; ++i) CHECK(rig.decide({&open}) == Result::admitted);
    CHECK(rig.decision.store_failed);
    CHECK(rig.counted("timeout", 8));
    // All but the first came too late to be sent.
    CHECK(rig.server.count("EVALSHA") == 1);
    // The breaker counts what went unanswered for the store's own timeout, once each.
    CHECK(rig.client->is_up());
}

TEST_CASE("limiter: only charges that are needed at about one time share a command") {
    Rig rig(100, kSoon);
    rig.run();
    rig.await_up(true);
    rig.server.evalsha = [](const Words&) { return ""; };
    const auto open = policy("open", 5, OnStoreFailure::allow);
    const auto now = std::chrono::steady_clock::now();
    std::array<LimitDecision, 4> decisions;
    decisions[0].needed_by = now + 200ms;
    decisions[1].needed_by = now + 200ms + 300us;
    decisions[2].needed_by = now + 400ms;
    for (LimitDecision& one : decisions) {
        one.items = {{&open, "ip:192.0.2.1"}};
        rig.limiter->decide(one, rig.sleeper, now);
    }
    CHECK(rig.wait([&] {
        return std::none_of(decisions.begin(), decisions.end(),
                            [](const LimitDecision& one) { return one.result == Result::pending; });
    }));
    CHECK(rig.server.count("EVALSHA") == 3);
}

TEST_CASE("limiter: too much in flight falls back at once") {
    Rig rig(1);
    const auto open = policy("open", 5, OnStoreFailure::allow);
    const auto other = policy("other", 5, OnStoreFailure::allow);
    LimitDecision waiting;
    waiting.items = {{&open, "ip:192.0.2.1"}};
    rig.limiter->decide(waiting, rig.sleeper);
    CHECK(waiting.result == Result::pending);
    LimitDecision too_many;
    too_many.items = {{&other, "ip:192.0.2.2"}};
    rig.limiter->decide(too_many, rig.sleeper);
    CHECK(too_many.result == Result::admitted);
    CHECK(rig.counted("overloaded", 1));
    rig.client->stop();
    CHECK(waiting.result == Result::admitted);
    CHECK(rig.counted("unavailable", 1));
}

TEST_CASE("limiter: allow admits with nothing counted, however often") {
    Rig rig;
    rig.run_without_redis();
    const auto open = policy("open", 1, OnStoreFailure::allow);
    for (int i = 0; i < 10; ++i) {
        CHECK(rig.decide({&open}) == Result::admitted);
        CHECK(rig.decision.decided().empty());
        CHECK(rig.decision.verdict.limits.empty());
    }
    CHECK(rig.memory.keys() == 0);
    CHECK(rig.counted("unavailable", 10));
}

TEST_CASE("limiter: local counts its share of the quota, rounded down") {
    Rig rig;
    rig.replicas = 3;
    rig.run_without_redis();
    const auto shared = policy("shared", 8, OnStoreFailure::local);
    CHECK(rig.decide({&shared}) == Result::admitted);
    CHECK(rig.decision.verdict.limits.at(0).remaining == 1);
    CHECK(rig.decide({&shared}) == Result::admitted);
    CHECK(rig.decide({&shared}) == Result::limited);
    CHECK(rig.decision.decided().size() == 1);
    CHECK(rig.decision.verdict.limits.at(0).denied);
    // Of two units three proxies cannot have one each.
    const auto little = policy("little", 2, OnStoreFailure::local);
    CHECK(rig.decide({&little}) == Result::limited);
    CHECK(rig.decision.verdict.retry_after == limit::kNever);
}

TEST_CASE("limiter: local counts outlive a Redis that comes and goes") {
    Rig rig;
    rig.replicas = 1;
    const auto some = policy("some", 2, OnStoreFailure::local);
    rig.run_without_redis();
    CHECK(rig.decide({&some}) == Result::admitted);
    rig.server.evalsha = [](const Words&) { return script_reply(true, 0, {0}); };
    rig.server.listen();
    rig.await_up(true);
    CHECK(rig.decide({&some}) == Result::admitted);
    CHECK(rig.decision.decided_by == StoreKind::redis);
    rig.server.refuse();
    rig.await_up(false);
    CHECK(rig.decide({&some}) == Result::admitted);
    CHECK(rig.decide({&some}) == Result::limited);
}

TEST_CASE("limiter: local denies while the number of proxies is not known") {
    Rig rig;
    rig.run_without_redis();
    const auto shared = policy("shared", 8, OnStoreFailure::local);
    const auto open = policy("open", 8, OnStoreFailure::allow);
    CHECK(rig.decide({&shared}) == Result::unavailable);
    CHECK(rig.decide({&open, &shared}) == Result::unavailable);
    CHECK(rig.decision.decided().empty());
    CHECK(rig.memory.keys() == 0);
    rig.replicas = 1;
    CHECK(rig.decide({&shared}) == Result::admitted);
}

TEST_CASE("limiter: deny comes before local before allow") {
    Rig rig;
    rig.replicas = 1;
    rig.run_without_redis();
    const auto closed = policy("closed", 5, OnStoreFailure::deny);
    const auto shared = policy("shared", 1, OnStoreFailure::local);
    const auto open = policy("open", 5, OnStoreFailure::allow);
    CHECK(rig.decide({&open, &shared, &closed}) == Result::unavailable);
    CHECK(rig.decide({&closed}) == Result::unavailable);
    CHECK(rig.decision.decided().empty());
    CHECK(rig.memory.keys() == 0);  // a denying policy takes nothing from the local one
    CHECK(rig.decide({&open, &shared}) == Result::admitted);
    REQUIRE(rig.decision.decided().size() == 1);
    CHECK(rig.decision.decided()[0].policy == &shared);
    CHECK(rig.decision.verdict.limits.size() == 1);
    CHECK(rig.decide({&open, &shared}) == Result::limited);
    CHECK(rig.decide({&open}) == Result::admitted);
}

TEST_CASE("limiter: a policy in shadow denies nothing, whatever its failure policy is") {
    Rig rig;
    rig.run_without_redis();
    auto closed = policy("closed", 5, OnStoreFailure::deny);
    closed.shadow = true;
    auto shared = policy("shared", 5, OnStoreFailure::local);
    shared.shadow = true;
    const auto open = policy("open", 5, OnStoreFailure::allow);
    CHECK(rig.decide({&closed}) == Result::admitted);
    CHECK(rig.decide({&open, &closed, &shared}) == Result::admitted);
    CHECK(rig.decision.decided().empty());
}

TEST_CASE("limiter: a reused decision says nothing of the request before it") {
    Rig rig;
    rig.replicas = 1;
    rig.run();
    const auto shared = policy("shared", 1, OnStoreFailure::local);
    rig.server.evalsha = [](const Words&) { return "-OOM\r\n"; };
    CHECK(rig.decide({&shared}) == Result::admitted);
    CHECK(rig.decision.store_failed);
    rig.server.evalsha = [](const Words&) { return script_reply(true, 0, {0, 0}); };
    const auto other = policy("other", 1, OnStoreFailure::deny);
    CHECK(rig.decide({&shared, &other}) == Result::admitted);
    CHECK_FALSE(rig.decision.store_failed);
    CHECK(rig.decision.decided_by == StoreKind::redis);
    CHECK(rig.decision.decided().size() == 2);
}

TEST_CASE("limiter: a denial is remembered, for its retry_after and for the same items") {
    Rig rig;
    rig.run();
    const auto some = policy("some", 5, OnStoreFailure::local);
    auto other = policy("other", 5, OnStoreFailure::local);
    other.index = 1;
    rig.server.evalsha = [](const Words&) { return script_reply(false, 3'600'000'000, {5}); };
    CHECK(rig.decide({&some}) == Result::limited);
    for (int i = 0; i < 10; ++i) {
        CHECK(rig.decide({&some}) == Result::limited);
        CHECK(rig.decision.remembered);
        CHECK(rig.decision.verdict.limits.at(0).denied);
        CHECK(rig.decision.verdict.retry_after <= 1h);
        CHECK(rig.decision.verdict.retry_after > 59min);
    }
    CHECK(rig.server.count("EVALSHA") == 1);
    CHECK(rig.metrics_have("tidegate_deny_cache_hits_total 10"));

    rig.server.evalsha = [](const Words&) { return script_reply(true, 0, {0}); };
    CHECK(rig.decide({&other}) == Result::admitted);
    CHECK(rig.decide({&some}) == Result::limited);
    rig.limiter->forget({});
    CHECK(rig.decide({&some}) == Result::admitted);
    CHECK_FALSE(rig.decision.remembered);
}

TEST_CASE("limiter: a wall clock that is set ends remembered denials, which may be of a day") {
    Rig rig;
    rig.run();
    const auto some = policy("some", 5, OnStoreFailure::local);
    rig.server.evalsha = [](const Words&) { return script_reply(false, 3'600'000'000, {5}); };
    CHECK(rig.decide({&some}) == Result::limited);
    const auto now = std::chrono::system_clock::now();
    rig.limiter->follow_wall_clock(std::chrono::steady_clock::now());
    follow_wall_clock(now);
    rig.limiter->follow_wall_clock(std::chrono::steady_clock::now());
    CHECK(rig.decide({&some}) == Result::limited);
    CHECK(rig.decision.remembered);
    follow_wall_clock(now + 2h);
    rig.limiter->follow_wall_clock(std::chrono::steady_clock::now());
    CHECK(rig.decide({&some}) == Result::limited);
    CHECK_FALSE(rig.decision.remembered);
    follow_wall_clock(std::chrono::system_clock::now());
}

TEST_CASE(
    "limiter: decisions of one turn about the same items are one command, each with its own "
    "verdict") {
    Rig rig;
    rig.run();
    CHECK(rig.wait([&] { return rig.server.count("SCRIPT") > 0; }));
    const auto some = policy("some", 2, OnStoreFailure::local);
    const auto other = policy("other", 2, OnStoreFailure::local);
    int answered = 0;
    rig.server.evalsha = [&](const Words& words) {
        ++answered;
        if (words.at(3).find("other") != std::string::npos) return script_reply(true, 0, {0});
        return script_reply(std::vector<bool>{true, true, false}, 5'000, {0});
    };
    rig.await_up(true);
    // Connected by now, or a moment later; both ways they wait for the end of the turn.
    LimitDecision first;
    LimitDecision second;
    LimitDecision third;
    LimitDecision another;
    for (LimitDecision* one : {&first, &second, &third}) one->items = {{&some, "ip:192.0.2.1"}};
    another.items = {{&other, "ip:192.0.2.1"}};
    for (LimitDecision* one : {&first, &another, &second, &third}) {
        rig.limiter->decide(*one, rig.sleeper);
        CHECK(one->result == Result::pending);
    }
    CHECK(rig.wait(
        [&] { return third.result != Result::pending && another.result != Result::pending; }));
    CHECK(answered == 2);
    CHECK(first.result == Result::admitted);
    CHECK(first.verdict.limits.at(0).remaining == 1);
    CHECK(second.result == Result::admitted);
    CHECK(second.verdict.limits.at(0).remaining == 0);
    CHECK(third.result == Result::limited);
    CHECK(third.verdict.retry_after == 5ms);
    CHECK(another.result == Result::admitted);
}

TEST_CASE(
    "limiter: decisions of one turn under the same policies are one command, of all identifiers") {
    Rig rig;
    rig.run();
    CHECK(rig.wait([&] { return rig.server.count("SCRIPT") > 0; }));
    const auto some = policy("some", 2, OnStoreFailure::local);
    const auto other = policy("other", 2, OnStoreFailure::local);
    std::vector<Words> asked;
    rig.server.evalsha = [&](const Words& words) {
        asked.push_back(words);
        if (words.at(2) == "1") return script_reply(true, 0, {1});
        return mixed_reply({true, false, true, true}, 3'600'000'000, {0, 2, -1, 0});
    };
    std::array<LimitDecision, 4> mixed;
    const std::array names{"ip:192.0.2.1", "ip:192.0.2.2", "ip:192.0.2.3", "ip:192.0.2.1"};
    for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i].items = {{&some, names[i]}};
    LimitDecision another;
    another.items = {{&other, "ip:192.0.2.4"}};
    LimitDecision free;  // a question that takes nothing
    free.items = {{&some, "ip:192.0.2.5"}};
    free.cost = 0;
    for (LimitDecision* one : {&mixed[0], &another, &mixed[1], &free, &mixed[2], &mixed[3]}) {
        rig.limiter->decide(*one, rig.sleeper);
        CHECK(one->result == Result::pending);
    }
    CHECK(rig.wait([&] {
        return mixed[2].result != Result::pending && another.result != Result::pending &&
               free.result != Result::pending;
    }));
    REQUIRE(asked.size() == 4);
    CHECK(asked[0].at(2) == "4");
    CHECK(asked[0].at(3) == "tg:4:some:{ip:192.0.2.1}");
    CHECK(asked[0].at(4) == "tg:4:some:{ip:192.0.2.2}");
    CHECK(asked[0].at(6) == "tg:4:some:{ip:192.0.2.1}");
    CHECK(mixed[0].result == Result::admitted);
    CHECK(mixed[0].verdict.limits.at(0).remaining == 1);
    CHECK(mixed[1].result == Result::limited);
    CHECK(mixed[1].verdict.retry_after == 1h);
    CHECK(mixed[3].result == Result::admitted);
    // A charge that the script has not looked at was sent alone.
    CHECK(asked[3].at(2) == "1");
    CHECK(asked[3].at(3) == "tg:4:some:{ip:192.0.2.3}");
    CHECK(mixed[2].result == Result::admitted);
    CHECK(mixed[2].verdict.limits.at(0).remaining == 0);
    CHECK(another.result == Result::admitted);
    CHECK(free.result == Result::admitted);
    // A denial of one identifier is remembered for that one.
    LimitDecision again;
    again.items = {{&some, names[1]}};
    rig.limiter->decide(again, rig.sleeper);
    REQUIRE(again.result == Result::limited);
    CHECK(again.remembered);
    CHECK_FALSE(rig.counted("protocol", 1));
}

TEST_CASE("limiter: 32 identifiers at most share a command, and fail together") {
    Rig rig;
    rig.run();
    const auto open = policy("open", 5, OnStoreFailure::allow);
    const auto admitting = [](std::size_t requests) {
        return mixed_reply(std::vector<bool>(requests, true), 0,
                           std::vector<std::int64_t>(requests, 0));
    };
    std::string answer;
    SUBCASE("an error") {
        answer = "-OOM no memory\r\n";
    }
    SUBCASE("an answer that makes no sense") {
        answer = "$3\r\nyes\r\n";
    }
    SUBCASE("an answer to fewer") {
        answer = admitting(kMixedMax - 1);
    }
    SUBCASE("an answer to more") {
        answer = admitting(kMixedMax + 1);
    }
    rig.server.evalsha = [&](const Words&) { return answer; };
    constexpr std::size_t kDecisions = 3 * kMixedMax;
    std::array<LimitDecision, kDecisions> decisions;
    std::array<std::string, kDecisions> names;
    for (std::size_t i = 0; i < decisions.size(); ++i) {
        names[i] = "ip:192.0.2." + std::to_string(i);
        decisions[i].items = {{&open, names[i]}};
        rig.limiter->decide(decisions[i], rig.sleeper);
    }
    CHECK(rig.wait([&] { return decisions.back().result != Result::pending; }));
    for (const LimitDecision& one : decisions) {
        CHECK(one.result == Result::admitted);
        CHECK(one.store_failed);
    }
    CHECK(rig.server.count("EVALSHA") == 3);
    CHECK(rig.counted(answer[0] == '-' ? "refused" : "protocol", int{kDecisions}));
}

TEST_CASE("limiter: sixteen different decisions leave before their turn ends") {
    Rig rig;
    rig.run();
    const auto first = policy("first", 5, OnStoreFailure::local);
    rig.server.evalsha = [](const Words&) { return script_reply(true, 0, {0}); };
    CHECK(rig.decide({&first}) == Result::admitted);  // connected
    std::vector<limit::Policy> policies;
    for (int i = 0; i < 16; ++i) {
        policies.push_back(policy("p" + std::to_string(i), 5, OnStoreFailure::local));
    }
    std::array<LimitDecision, 17> decisions;
    for (std::size_t i = 0; i < decisions.size(); ++i) {
        // The last would join the one before it, had that not left.
        decisions[i].items = {{&policies[std::min<std::size_t>(i, 15)], "ip:192.0.2.1"}};
        rig.limiter->decide(decisions[i], rig.sleeper);
    }
    CHECK(rig.wait([&] { return decisions.back().result != Result::pending; }));
    CHECK(rig.server.count("EVALSHA") == 1 + 17);
    for (const LimitDecision& one : decisions) CHECK(one.result == Result::admitted);
}

TEST_CASE("limiter: a connection that is lost as decisions leave fails them, each once") {
    Rig rig;
    rig.run();
    const auto open = policy("open", 5, OnStoreFailure::allow);
    rig.server.evalsha = [](const Words&) { return script_reply(true, 0, {0}); };
    CHECK(rig.decide({&open}) == Result::admitted);
    const int before = rig.failures();
    // Gone, and nothing has run that could have seen it: the second write finds out.
    rig.server.hang_up();
    std::array<LimitDecision, 64> decisions;
    std::array<std::string, 64> names;
    for (std::size_t i = 0; i < decisions.size(); ++i) {
        names[i] = "ip:192.0.2." + std::to_string(i);
        decisions[i].items = {{&open, names[i]}};
        rig.limiter->decide(decisions[i], rig.sleeper);
    }
    CHECK(rig.wait([&] {
        return std::none_of(decisions.begin(), decisions.end(),
                            [](const LimitDecision& one) { return one.result == Result::pending; });
    }));
    for (const LimitDecision& one : decisions) CHECK(one.result == Result::admitted);
    CHECK(rig.failures() - before == static_cast<int>(decisions.size()));
    // What it leaves behind is used again.
    rig.await_up(true);
    CHECK(rig.decide({&open}) == Result::admitted);
}

TEST_CASE("limiter: after a command of which half must be sent again, decisions travel alone") {
    Rig rig;
    rig.run();
    const auto some = policy("some", 5, OnStoreFailure::local);
    rig.server.evalsha = [](const Words& words) {
        if (words.at(2) == "1") return script_reply(true, 0, {0});
        return mixed_reply({true, true}, 0, {0, -1});
    };
    const auto ask_both = [&] {
        std::array<LimitDecision, 2> decisions;
        decisions[0].items = {{&some, "ip:192.0.2.1"}};
        decisions[1].items = {{&some, "ip:192.0.2.2"}};
        for (LimitDecision& one : decisions) rig.limiter->decide(one, rig.sleeper);
        CHECK(rig.wait([&] {
            return decisions[0].result != Result::pending && decisions[1].result != Result::pending;
        }));
        for (const LimitDecision& one : decisions) CHECK(one.result == Result::admitted);
    };
    ask_both();
    CHECK(rig.server.count("EVALSHA") == 2);
    ask_both();
    CHECK(rig.server.count("EVALSHA") == 4);
    CHECK(rig.server.seen.back().at(2) == "1");
}

TEST_CASE("limiter: decisions of one command fail together, each by its own policy once") {
    Rig rig;
    rig.run();
    const auto open = policy("open", 5, OnStoreFailure::allow);
    rig.server.evalsha = [](const Words&) { return "-OOM no memory\r\n"; };
    std::array<LimitDecision, 70> decisions;
    for (LimitDecision& one : decisions) {
        one.items = {{&open, "ip:192.0.2.1"}};
        rig.limiter->decide(one, rig.sleeper);
    }
    CHECK(rig.wait([&] { return decisions.back().result != Result::pending; }));
    for (const LimitDecision& one : decisions) CHECK(one.result == Result::admitted);
    CHECK(rig.server.count("EVALSHA") == 2);  // 64 at most in one
    CHECK(rig.counted("refused", 70));
}

TEST_CASE("limiter: no decision joins a command that Redis did not take") {
    Rig rig;
    rig.replicas = 1;
    rig.run();
    const auto window = policy("window", 100, OnStoreFailure::local);
    auto many = slots(100);
    many.index = 1;
    rig.server.evalsha = [](const Words&) { return script_reply(true, 0, {0}); };
    CHECK(rig.decide({&window}) == Result::admitted);
    CHECK(rig.decision.decided_by == StoreKind::redis);
    rig.server.refuse();
    rig.await_up(false);
    // The one cannot share a command, the other can; both use what the first has left behind.
    for (int i = 0; i < 4; ++i) {
        for (const limit::Policy* one : {static_cast<const limit::Policy*>(&many), &window}) {
            rig.decision.items = {{one, "ip:192.0.2.1"}};
            rig.limiter->decide(rig.decision, rig.sleeper);
            REQUIRE(rig.decision.result == Result::admitted);
            CHECK(rig.decision.decided_by == StoreKind::local);
        }
    }
}

TEST_CASE("limiter: a look says whether a charge would be denied, and takes nothing") {
    InProcess rig;
    LimitDecision& decision = rig.decision;
    const auto some = policy("some", 4, OnStoreFailure::deny);
    decision.items = {{&some, "ip:192.0.2.1"}};
    decision.cost = 2;
    const auto look = [&] {
        rig.limiter.look(decision, rig.sleeper);
        return decision.result;
    };
    for (int i = 0; i < 10; ++i) CHECK(look() == Result::admitted);
    CHECK(rig.memory.keys() == 0);
    rig.limiter.decide(decision, rig.sleeper);
    CHECK(look() == Result::admitted);
    rig.limiter.decide(decision, rig.sleeper);
    for (int i = 0; i < 10; ++i) CHECK(look() == Result::limited);
    CHECK(decision.verdict.limits.at(0).denied);
    CHECK(decision.verdict.limits.at(0).remaining == 0);
    CHECK(decision.verdict.retry_after > 59min);
    CHECK(decision.verdict.retry_after <= 1h + 1min);
    // What is known to be full for two is full for one.
    decision.cost = 1;
    CHECK(look() == Result::limited);
}

TEST_CASE("limiter: a look at Redis is one command, and a full address is remembered") {
    Rig rig;
    rig.run();
    const auto some = policy("some", 5, OnStoreFailure::local);
    const std::int64_t now = 1'700'000'000'000'000;
    const auto counts = [&](double units) {
        std::string reply = test::doubles(double(now), units, double(now + 1'000'000),
                                          double(now + 9'000'000), units < 5 ? 0 : now + 1'000'000);
        reply += test::packed(std::uint8_t{0});
        return "$" + std::to_string(reply.size()) + "\r\n" + reply + "\r\n";
    };
    const auto look = [&](std::int64_t cost) {
        rig.decision.items = {{&some, "ip:192.0.2.1"}};
        rig.decision.cost = cost;
        rig.limiter->look(rig.decision, rig.sleeper);
        CHECK(rig.wait([&] { return rig.decision.result != Result::pending; }));
        return rig.decision.result;
    };
    rig.server.evalsha = [&](const Words&) { return counts(4); };
    CHECK(look(1) == Result::admitted);
    CHECK(look(2) == Result::admitted);  // Redis is asked about one unit, and one is left
    rig.server.evalsha = [&](const Words&) { return counts(5); };
    CHECK(look(1) == Result::limited);
    CHECK(rig.decision.verdict.retry_after == 1s);
    CHECK_FALSE(rig.decision.remembered);
    for (int i = 0; i < 5; ++i) CHECK(look(1) == Result::limited);
    CHECK(rig.decision.remembered);
    CHECK(rig.server.count("EVALSHA") == 3);
    for (const Words& words : rig.server.seen) {
        if (words.front() == "EVALSHA") CHECK(words.at(1) == inspect_script().sha1);
    }
    CHECK(rig.memory.keys() == 0);
}

TEST_CASE("limiter: a look that fails does not deny the request") {
    Rig rig;
    rig.run_without_redis();
    const auto closed = policy("closed", 1, OnStoreFailure::deny);
    rig.decision.items = {{&closed, "ip:192.0.2.1"}};
    rig.limiter->look(rig.decision, rig.sleeper);
    CHECK(rig.wait([&] { return rig.decision.result != Result::pending; }));
    CHECK(rig.decision.result == Result::admitted);
    CHECK(rig.decision.verdict.limits.empty());
}

TEST_CASE("limiter: a default limit is counted alone while the share is unknown") {
    Rig rig;
    rig.run_without_redis();
    const auto by_default = policy("default", 2, OnStoreFailure::local_or_alone);
    const auto written = policy("written", 2, OnStoreFailure::local);
    CHECK(rig.decide({&written}) == Result::unavailable);
    CHECK(rig.decide({&by_default}) == Result::admitted);
    CHECK(rig.decide({&by_default}) == Result::admitted);
    CHECK(rig.decide({&by_default}) == Result::limited);
    rig.replicas = 2;
    CHECK(rig.decide({&by_default}) == Result::limited);
}

}  // namespace tidegate::store::limiter_test

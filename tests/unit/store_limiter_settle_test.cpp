// What becomes of units and slots once a request has its status.
#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "store/limiter.hpp"
#include "unit/script_reply.hpp"
#include "unit/store_limiter_rig.hpp"

namespace tidegate::store::limiter_settle_test {
namespace {

using namespace std::chrono_literals;
using test::script_reply;
using test::Words;
using Result = LimitDecision::Result;
using Rig = LimiterRig;

}  // namespace

TEST_CASE("limiter: units are given back unless the answer has a status that counts") {
    Rig rig;
    rig.run();
    limit::LimitSpec spec;
    spec.quota = 5;
    spec.duration = 1h;
    spec.count = limit::Count::by_status;
    spec.statuses = {401, 403};
    const auto login = policy_of(spec);
    rig.server.evalsha = [](const Words& words) {
        return words.size() > 5 ? script_reply(true, 0, {0}) : std::string(":0\r\n");
    };
    rig.decision.needs_settling = true;
    CHECK(rig.decide({&login}) == Result::admitted);
    rig.limiter->settle(rig.decision, 401);
    CHECK(rig.decide({&login}) == Result::admitted);
    CHECK(rig.server.count("EVALSHA") == 2);
    rig.limiter->settle(rig.decision, 200);
    rig.limiter->settle(rig.decision, 200);  // once
    CHECK(rig.wait([&] { return rig.server.count("EVALSHA") == 3; }));
    CHECK(rig.server.seen.back().at(1) == give_back_script().sha1);
    CHECK(rig.server.seen.back().at(3) == "tg:4:p:{ip:192.0.2.1}");
}

TEST_CASE("limiter: a request that goes on for long gives units back by its status, once") {
    Rig rig;
    rig.run();
    limit::LimitSpec spec;
    spec.quota = 5;
    spec.duration = 1h;
    spec.count = limit::Count::by_status;
    spec.statuses = {401};
    const auto login = policy_of(spec);
    rig.server.evalsha = [](const Words& words) {
        return words.size() > 5 ? script_reply(true, 0, {0}) : std::string(":0\r\n");
    };
    rig.decision.needs_settling = true;
    for (std::size_t i = 1; i <= 2; ++i) {
        CHECK(rig.decide({&login}) == Result::admitted);
        rig.limiter->note_status(rig.decision, 101);
        rig.limiter->note_status(rig.decision, 101);
        CHECK(rig.wait([&] { return rig.server.count("EVALSHA") == 2 * i; }));
        CHECK(rig.server.seen.back().at(1) == give_back_script().sha1);
        rig.limiter->settle(rig.decision, 101);
    }
    CHECK(rig.decide({&login}) == Result::admitted);
    CHECK(rig.server.count("EVALSHA") == 5);
    // Its status counts.
    rig.limiter->note_status(rig.decision, 401);
    rig.limiter->settle(rig.decision, 401);
    CHECK(rig.decide({&login}) == Result::admitted);
    CHECK(rig.server.count("EVALSHA") == 6);
}

TEST_CASE("limiter: a slot is held after the status was noted, and given up at the end") {
    Rig rig;
    rig.run();
    const auto few = slots(5);
    rig.server.evalsha = answer_to_slots;
    rig.server.other = [](const Words& words) {
        return words.front() == "ZREM" ? ":1\r\n" : "+OK\r\n";
    };
    rig.decision.needs_settling = true;
    CHECK(rig.decide({&few}) == Result::admitted);
    rig.limiter->note_status(rig.decision, 101);
    rig.limiter->renew_slots(std::chrono::steady_clock::now() + 4s);
    CHECK(rig.wait([&] { return rig.server.count("EVALSHA") == 2; }));
    CHECK(rig.server.seen.back().at(1) == renew_script().sha1);
    CHECK(rig.server.count("ZREM") == 0);
    rig.limiter->settle(rig.decision, 101);
    CHECK(rig.wait([&] { return rig.server.count("ZREM") == 1; }));
}

TEST_CASE("limiter: what was admitted without Redis is reported to it, less what was given back") {
    Rig rig;
    rig.replicas = 1;
    limit::LimitSpec spec;
    spec.quota = 9;
    spec.duration = 1h;
    spec.count = limit::Count::by_status;
    spec.statuses = {401};
    const auto guesses = policy_of(spec);
    rig.run_without_redis();
    rig.decision.needs_settling = true;
    for (const int status : {401, 200, 401}) {
        CHECK(rig.decide({&guesses}) == Result::admitted);
        CHECK(rig.decision.decided_by == StoreKind::local);
        rig.limiter->settle(rig.decision, status);
    }
    rig.server.listen();
    rig.await_up(true);
    rig.limiter->report_local(std::chrono::steady_clock::now());
    CHECK(rig.wait([&] { return rig.server.count("EVALSHA") == 1; }));
    const Words& told = rig.server.seen.back();
    REQUIRE(told.size() == 6);
    CHECK(told[1] == report_script().sha1);
    CHECK(told[3] == "tg:4:p:{ip:192.0.2.1}");
    // The time, how many portions, when the first began, and its units.
    REQUIRE(told[5].size() == 8 + 2 + 8 + 4);
    CHECK(told[5].substr(18) == std::string("\2\0\0\0", 4));
}

TEST_CASE("limiter: a slot is renewed while it is held and given up at the end") {
    Rig rig;
    rig.run();
    const auto few = slots(5);
    rig.server.evalsha = answer_to_slots;
    rig.server.other = [](const Words& words) {
        return words.front() == "ZREM" ? ":1\r\n" : "+OK\r\n";
    };
    rig.decision.needs_settling = true;
    CHECK(rig.decide({&few}) == Result::admitted);
    const auto now = std::chrono::steady_clock::now();
    rig.limiter->renew_slots(now);  // fresh
    rig.limiter->renew_slots(now + 4s);
    rig.limiter->renew_slots(now + 5s);
    CHECK(rig.wait([&] { return rig.server.count("EVALSHA") == 2; }));
    CHECK(rig.server.seen.back().at(1) == renew_script().sha1);
    rig.limiter->settle(rig.decision, 200);
    CHECK(rig.wait([&] { return rig.server.count("ZREM") == 1; }));
    rig.limiter->renew_slots(now + 1h);
    rig.limiter->settle(rig.decision, 200);
    CHECK(rig.decide({&few}) == Result::admitted);
    CHECK(rig.server.count("ZREM") == 1);
    CHECK(rig.server.count("EVALSHA") == 3);
}

TEST_CASE("limiter: a slot that is held after its request is left to Redis, and renewed no more") {
    Rig rig;
    rig.run();
    const auto few = slots(5);
    rig.server.evalsha = answer_to_slots;
    rig.decision.needs_settling = true;
    CHECK(rig.decide({&few}) == Result::admitted);
    rig.limiter->settle(rig.decision, 0, 30s);
    CHECK(rig.wait([&] { return rig.server.count("EVALSHA") == 2; }));
    CHECK(rig.server.seen.back().at(1) == hold_script().sha1);
    CHECK(rig.server.seen.back().at(5) == "30000000");
    rig.limiter->renew_slots(std::chrono::steady_clock::now() + 5s);
    rig.limiter->settle(rig.decision, 0, 30s);
    CHECK(rig.decide({&few}) == Result::admitted);
    CHECK(rig.server.count("EVALSHA") == 3);
    CHECK(rig.server.count("ZREM") == 0);
}

TEST_CASE("limiter: a slot that a late answer may have taken is given up") {
    Rig rig(100, kSoon);
    rig.replicas = 1;
    rig.run();
    const auto few = slots(5);
    rig.server.evalsha = [](const Words&) { return std::string(); };
    rig.decision.needs_settling = true;
    CHECK(rig.decide({&few}) == Result::admitted);
    CHECK(rig.decision.decided_by == StoreKind::local);
    rig.limiter->renew_slots(std::chrono::steady_clock::now());
    CHECK(rig.wait([&] { return rig.server.count("ZREM") == 1; }));
    // The slot that was taken here is given up here.
    rig.limiter->settle(rig.decision, 200);
    for (int i = 0; i < 5; ++i) {
        LimitDecision one;
        one.items = rig.decision.items;
        one.needs_settling = true;
        rig.client->stop();
        rig.limiter->decide(one, rig.sleeper);
        CHECK(one.result == Result::admitted);
    }
}

}  // namespace tidegate::store::limiter_settle_test

// Decisions of a limiter on a cluster, whose nodes answer what a test says.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "redis/cluster_map.hpp"
#include "store/limiter.hpp"
#include "store/scripts.hpp"
#include "unit/fake_redis.hpp"
#include "unit/metrics_text.hpp"
#include "unit/script_reply.hpp"
#include "unit/store_asking.hpp"

namespace tidegate::store::cross_slot_charge_test {
namespace {

using namespace std::chrono_literals;
using limit::OnStoreFailure;
using test::FakeRedis;
using test::run_until;
using test::script_reply;
using test::Words;
using Result = LimitDecision::Result;

// Identifiers in slots of the first and of the second node.
constexpr std::string_view kOnFirst = "ip:192.0.2.1";
constexpr std::string_view kOnSecond = "user:alice";
// What a node that says nothing is waited for, and far more than the other one takes.
constexpr std::chrono::milliseconds kLate{500};

limit::Policy policy_of(const limit::LimitSpec& spec, OnStoreFailure on_store_failure) {
    limit::Policy policy = test::policy("p", {test::made(spec)});
    policy.on_store_failure = on_store_failure;
    return policy;
}

limit::Policy policy(std::int64_t quota, OnStoreFailure on_store_failure = OnStoreFailure::deny) {
    const auto spec = test::spec_of(limit::Algorithm::sliding_window, quota, 1h);
    return policy_of(spec, on_store_failure);
}

// Two nodes: the first serves the slot of kOnFirst alone, the second all others.
struct Rig {
    // No node is too late, however busy the machine is, unless a test lets one be.
    explicit Rig(std::chrono::milliseconds timeout = 10s) {
        list();
        for (FakeRedis& node : nodes) {
            node.other = [this](const Words& words) {
                if (words[0] == "ZREM") return std::string(":1\r\n");
                return words[0] == "CLUSTER" ? cluster_nodes : std::string("+OK\r\n");
            };
            node.evalsha = [](const Words& words) {
                return is_give_back(words) ? std::string(":0\r\n") : script_reply(true, 0, {0});
            };
        }
        redis::ClusterOptions options;
        options.seeds = {{"127.0.0.1", static_cast<std::uint16_t>(nodes[0].port())}};
        options.node.timeout = timeout;
        options.node.probe_every = 20ms;
        options.node.scripts = all_scripts();
        cluster =
            std::make_shared<redis::Cluster>(io.get_executor(), options, redis::Cluster::OnState{});
        limiter.emplace(
            memory, Limiter::RedisParts{.store = {cluster, "tg:"}, .replicas = &replicas}, metrics);
        spawn(io.get_executor(), redis::Cluster::run(cluster),
              [this](const std::exception_ptr&) { ended = true; });
        CHECK(wait([&] { return nodes[1].count("SCRIPT") == all_scripts().size(); }));
    }
    ~Rig() {
        cluster->stop();
        CHECK(wait([&] { return ended; }));
    }

    void list() {
        const auto slot = redis::slot_of_tag(kOnFirst);
        const auto line = [&](std::size_t node, const std::string& slots) {
            return "id 127.0.0.1:" + std::to_string(nodes[node].port()) +
                   "@1 master - 0 0 1 connected " + slots + "\n";
        };
        const std::string text =
            line(0, std::to_string(slot)) +
            line(1, "0-" + std::to_string(slot - 1) + " " + std::to_string(slot + 1) + "-16383");
        cluster_nodes = "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
    }
    static bool is_give_back(const Words& words) { return words[1] == give_back_script().sha1; }
    // The charges and refunds that a node got.
    std::size_t charges(std::size_t node) const { return calls(node, false); }
    std::size_t refunds(std::size_t node) const { return calls(node, true); }
    std::size_t calls(std::size_t node, bool refunds) const {
        const auto& seen = nodes[node].seen;
        return static_cast<std::size_t>(
            std::count_if(seen.begin(), seen.end(), [&](const Words& words) {
                return words[0] == "EVALSHA" && is_give_back(words) == refunds;
            }));
    }
    void admit(std::size_t node, bool admits, std::int64_t retry_us = 1'000) {
        nodes[node].evalsha = [=](const Words& words) {
            if (is_give_back(words)) return std::string(":0\r\n");
            return script_reply(admits, retry_us, {admits ? 0 : 5});
        };
    }
    void lose(std::size_t node) {
        nodes[node].refuse();
        CHECK(wait([&] {
            return cluster->is_away(redis::slot_of_tag(node == 0 ? kOnFirst : kOnSecond));
        }));
    }
    template <class Done>
    bool wait(Done done) {
        return run_until(io, done);
    }
    Result decide(const limit::Policy& first, const limit::Policy& second) {
        decision.items = {{&first, kOnFirst}, {&second, kOnSecond}};
        return decide();
    }
    Result decide() {
        limiter->decide(decision, sleeper);
        CHECK(wait([&] { return decision.result != Result::pending; }));
        return decision.result;
    }
    bool metrics_have(const std::string& line) const {
        return test::has_line(test::text_of(metrics), line);
    }

    asio::io_context io;
    std::array<FakeRedis, 2> nodes{FakeRedis{io}, FakeRedis{io}};
    std::string cluster_nodes;
    Replicas replicas{0};
    MemoryStore memory{MemoryStore::Options{}};
    Metrics metrics;
    std::shared_ptr<redis::Cluster> cluster;
    std::optional<Limiter> limiter;
    Wakeup sleeper{io.get_executor()};
    LimitDecision decision;
    bool ended = false;
};

}  // namespace

TEST_CASE("cross_slot_charge: a request in one slot is one command to its node") {
    Rig rig;
    const auto some = policy(5);
    auto other = policy(5);
    other.name = "other";
    rig.nodes[0].evalsha = [](const Words&) { return script_reply(true, 0, {0, 0}); };
    rig.decision.items = {{&some, kOnFirst}, {&other, kOnFirst}};
    CHECK(rig.decide() == Result::admitted);
    CHECK(rig.charges(0) == 1);
    CHECK(rig.charges(1) == 0);
    CHECK(rig.decision.decided_by == StoreKind::redis);
    // And a denial there is remembered, as with one Redis.
    rig.nodes[0].evalsha = [](const Words&) { return script_reply(false, 60'000'000, {5, 0}); };
    CHECK(rig.decide() == Result::limited);
    CHECK(rig.decide() == Result::limited);
    CHECK(rig.decision.remembered);
    CHECK(rig.charges(0) == 2);
}

TEST_CASE("cross_slot_charge: admitted only if every slot admits") {
    Rig rig;
    const auto some = policy(5);
    CHECK(rig.decide(some, some) == Result::admitted);
    CHECK(rig.charges(0) == 1);
    CHECK(rig.charges(1) == 1);
    CHECK(rig.nodes[0].seen.back().at(3) == "tg:4:p:{ip:192.0.2.1}");
    CHECK(rig.decision.verdict.limits.size() == 2);
    CHECK(rig.decision.decided().size() == 2);
    CHECK_FALSE(rig.decision.store_failed);
    CHECK(rig.metrics_have("tidegate_store_given_back_total 0"));
}

TEST_CASE("cross_slot_charge: what one slot took is given back, once, where another denied") {
    Rig rig;
    const auto some = policy(5);
    rig.admit(1, false, 3'000);
    CHECK(rig.decide(some, some) == Result::limited);
    CHECK(rig.wait([&] { return rig.refunds(0) == 1; }));
    CHECK(rig.refunds(1) == 0);
    CHECK(rig.nodes[0].seen.back().at(3) == "tg:4:p:{ip:192.0.2.1}");
    REQUIRE(rig.decision.verdict.limits.size() == 2);
    CHECK_FALSE(rig.decision.verdict.limits[0].denied);
    CHECK(rig.decision.verdict.limits[0].remaining == 5);
    CHECK(rig.decision.verdict.limits[1].denied);
    CHECK(rig.decision.verdict.retry_after == 3ms);
    CHECK(rig.metrics_have("tidegate_store_given_back_total 1"));
    // Never remembered: both are asked again.
    CHECK(rig.decide(some, some) == Result::limited);
    CHECK_FALSE(rig.decision.remembered);
    CHECK(rig.charges(0) == 2);
    rig.limiter->settle(rig.decision, 200);
    CHECK(rig.wait([&] { return rig.refunds(0) == 2; }));
}

TEST_CASE("cross_slot_charge: a client over its own limit takes nothing of a shared one") {
    Rig rig;
    const auto own = policy(5);
    auto shared = policy(100);
    shared.name = "shared";
    const auto ask = [&](std::int64_t cost = 1) {
        rig.decision.items = {{&shared, kOnSecond}, {&own, kOnFirst, nullptr, true}};
        rig.decision.cost = cost;
        return rig.decide();
    };
    CHECK(ask() == Result::admitted);
    CHECK(rig.charges(1) == 1);
    rig.admit(0, false, 60'000'000);
    CHECK(ask() == Result::limited);
    CHECK(rig.charges(1) == 1);
    REQUIRE(rig.decision.decided().size() == 1);
    CHECK(rig.decision.decided()[0].identifier == kOnFirst);
    CHECK(rig.decision.verdict.limits.size() == 1);
    CHECK_FALSE(rig.decision.remembered);
    // And its denials are remembered, whatever else it asks for.
    for (int i = 0; i < 5; ++i) {
        CHECK(ask(2) == Result::limited);
        CHECK(rig.decision.remembered);
        CHECK(rig.decision.decided().size() == 1);
    }
    rig.decision.items = {{&own, kOnFirst, nullptr, true}, {&shared, "user:bob"}};
    CHECK(rig.decide() == Result::limited);
    CHECK(rig.decision.remembered);
    CHECK(rig.charges(0) == 2);
    CHECK(rig.metrics_have("tidegate_store_given_back_total 0"));
    rig.limiter->settle(rig.decision, 200);
    // But a limit that counts denied requests has to learn of each.
    auto counting = policy(100);
    counting.name = "counting";
    counting.limits[0].count = limit::Count::all;
    rig.decision.items = {{&own, kOnFirst, nullptr, true}, {&counting, kOnSecond}};
    CHECK(rig.decide() == Result::limited);
    CHECK_FALSE(rig.decision.remembered);
    CHECK(rig.charges(0) == 3);
}

TEST_CASE("cross_slot_charge: denials of what a client shares are asked anew") {
    Rig rig;
    const auto own = policy(5);
    auto shared = policy(5);
    SUBCASE("another client may give units back at any moment") {
        rig.admit(1, false, 60'000'000);
    }
    SUBCASE("a limit that counts denied requests has to learn of each") {
        shared.limits[0].count = limit::Count::all;
        rig.admit(0, false, 60'000'000);
    }
    for (std::size_t i = 1; i <= 3; ++i) {
        rig.decision.items = {{&own, kOnFirst, nullptr, true}, {&shared, kOnSecond}};
        CHECK(rig.decide() == Result::limited);
        CHECK_FALSE(rig.decision.remembered);
        CHECK(rig.charges(0) == i);
        CHECK(rig.charges(1) == i);
    }
}

TEST_CASE("cross_slot_charge: if both slots deny, nothing is given back") {
    Rig rig;
    const auto some = policy(5);
    rig.admit(0, false, 1'000);
    rig.admit(1, false, 7'000);
    CHECK(rig.decide(some, some) == Result::limited);
    CHECK(rig.decision.verdict.retry_after == 7ms);
    CHECK(rig.metrics_have("tidegate_store_given_back_total 0"));
}

TEST_CASE("cross_slot_charge: an answer that is late or malformed is a failure of its slot") {
    Rig rig(kLate);
    rig.replicas = 1;
    std::string reason;
    SUBCASE("late") {
        rig.nodes[1].evalsha = [](const Words&) { return std::string(); };
        reason = "timeout";
    }
    SUBCASE("nonsense") {
        rig.nodes[1].evalsha = [](const Words&) { return std::string("$3\r\nyes\r\n"); };
        reason = "protocol";
    }
    SUBCASE("an error") {
        rig.nodes[1].evalsha = [](const Words&) { return std::string("-CLUSTERDOWN no\r\n"); };
        reason = "refused";
    }
    SUBCASE("the end of the connection") {
        rig.nodes[1].evalsha = [&](const Words&) {
            rig.nodes[1].hang_up();
            return std::string();
        };
        reason = "disconnected";
    }
    const auto closed = policy(5, OnStoreFailure::deny);
    CHECK(rig.decide(closed, closed) == Result::unavailable);
    CHECK(rig.decision.store_failed);
    CHECK(rig.wait([&] { return rig.refunds(0) == 1; }));
    CHECK(rig.charges(1) == 1);
    CHECK(rig.metrics_have("tidegate_store_failures_total{reason=\"" + reason + "\"} 1"));
}

TEST_CASE("cross_slot_charge: the items of a slot whose node is away follow their policy") {
    Rig rig;
    rig.replicas = 2;
    rig.lose(1);
    const auto counted = policy(5, OnStoreFailure::deny);
    SUBCASE("deny: nothing is taken, nobody is asked") {
        const auto closed = policy(5, OnStoreFailure::deny);
        CHECK(rig.decide(counted, closed) == Result::unavailable);
        CHECK(rig.charges(0) == 0);
        CHECK(rig.memory.keys() == 0);
    }
    SUBCASE("allow: Redis decides the others") {
        const auto open = policy(1, OnStoreFailure::allow);
        for (int i = 0; i < 3; ++i) CHECK(rig.decide(counted, open) == Result::admitted);
        CHECK(rig.decision.decided().size() == 1);
        CHECK(rig.decision.decided_by == StoreKind::local);
        rig.admit(0, false);
        CHECK(rig.decide(counted, open) == Result::limited);
        CHECK(rig.decision.verdict.limits.size() == 1);
    }
    SUBCASE("local: what its share denies, Redis gets back") {
        const auto shared = policy(2, OnStoreFailure::local);
        CHECK(rig.decide(counted, shared) == Result::admitted);
        CHECK(rig.decision.decided().size() == 2);
        CHECK(rig.decision.verdict.limits.size() == 2);
        CHECK(rig.refunds(0) == 0);
        CHECK(rig.decide(counted, shared) == Result::limited);
        CHECK(rig.decision.verdict.limits[1].denied);
        CHECK(rig.wait([&] { return rig.refunds(0) == 1; }));
        // The limiter does not even ask for the part that Redis denies.
        rig.admit(0, false);
        const auto other = policy(2, OnStoreFailure::local);
        rig.decision.items = {{&counted, kOnFirst}, {&other, "user:bob"}};
        CHECK(rig.decide() == Result::limited);
        CHECK(rig.memory.keys() == 1);
    }
    SUBCASE("local, and nobody knows how many share it: nobody is asked") {
        rig.replicas = 0;
        const auto shared = policy(2, OnStoreFailure::local);
        CHECK(rig.decide(counted, shared) == Result::unavailable);
        CHECK(rig.charges(0) == 0);
    }
    CHECK(rig.metrics_have("tidegate_store_failures_total{reason=\"timeout\"} 0"));
}

TEST_CASE("cross_slot_charge: without any node it behaves as without Redis") {
    Rig rig;
    rig.replicas = 1;
    rig.lose(0);
    rig.lose(1);
    const auto shared = policy(1, OnStoreFailure::local);
    CHECK(rig.decide(shared, shared) == Result::admitted);
    CHECK(rig.decision.decided_by == StoreKind::local);
    CHECK(rig.decide(shared, shared) == Result::limited);
    CHECK(rig.decision.verdict.limits.size() == 2);
}

TEST_CASE("cross_slot_charge: at the end each slot gets back what the status does not keep") {
    Rig rig;
    limit::LimitSpec spec;
    spec.quota = 5;
    spec.duration = 1h;
    spec.count = limit::Count::by_status;
    spec.statuses = {401};
    const auto login = policy_of(spec, OnStoreFailure::deny);
    rig.decision.needs_settling = true;
    CHECK(rig.decide(login, login) == Result::admitted);
    rig.limiter->settle(rig.decision, 401);
    CHECK(rig.decide(login, login) == Result::admitted);
    rig.limiter->settle(rig.decision, 200);
    rig.limiter->settle(rig.decision, 200);  // once
    CHECK(rig.wait([&] { return rig.refunds(0) == 1 && rig.refunds(1) == 1; }));
    // Denied: given back at once, and not again at the end.
    rig.admit(1, false);
    CHECK(rig.decide(login, login) == Result::limited);
    rig.limiter->settle(rig.decision, 200);
    CHECK(rig.wait([&] { return rig.refunds(0) == 2; }));
    CHECK(rig.decide(login, login) == Result::limited);
    CHECK(rig.wait([&] { return rig.refunds(0) == 3; }));
    CHECK(rig.refunds(1) == 1);
}

TEST_CASE("cross_slot_charge: slots of concurrency are renewed where they are, and released") {
    Rig rig(kLate);
    limit::LimitSpec spec;
    spec.algorithm = limit::Algorithm::concurrency;
    spec.quota = 5;
    const auto few = policy_of(spec, OnStoreFailure::deny);
    rig.decision.needs_settling = true;
    SUBCASE("admitted") {
        CHECK(rig.decide(few, few) == Result::admitted);
        rig.limiter->renew_slots(std::chrono::steady_clock::now() + 5s);
        CHECK(rig.wait([&] { return rig.charges(0) == 2 && rig.charges(1) == 2; }));
        CHECK(rig.nodes[0].seen.back().at(1) == renew_script().sha1);
        rig.limiter->settle(rig.decision, 200);
        CHECK(rig.wait(
            [&] { return rig.nodes[0].count("ZREM") == 1 && rig.nodes[1].count("ZREM") == 1; }));
    }
    SUBCASE("ended, and to be kept") {
        CHECK(rig.decide(few, few) == Result::admitted);
        rig.limiter->settle(rig.decision, 0, 5s);
        CHECK(rig.wait([&] { return rig.charges(0) == 2 && rig.charges(1) == 2; }));
        CHECK(rig.nodes[0].seen.back().at(1) == hold_script().sha1);
        CHECK(rig.nodes[1].seen.back().at(1) == hold_script().sha1);
    }
    SUBCASE("denied by one: the other releases at once") {
        rig.nodes[1].evalsha = [](const Words&) {
            // All five are held, none by this request.
            std::string reply = script_reply(false, 0, {5});
            reply.replace(reply.size() - 10, 8, std::string(8, '\0'));
            return reply;
        };
        CHECK(rig.decide(few, few) == Result::limited);
        CHECK(rig.wait([&] { return rig.nodes[0].count("ZREM") == 1; }));
        CHECK(rig.nodes[1].count("ZREM") == 0);
    }
    SUBCASE("one said nothing: what it may hold is released, too") {
        rig.nodes[1].evalsha = [](const Words&) { return std::string(); };
        CHECK(rig.decide(few, few) == Result::unavailable);
        CHECK(rig.wait([&] { return rig.nodes[0].count("ZREM") == 1; }));
        rig.limiter->renew_slots(std::chrono::steady_clock::now());
        CHECK(rig.wait([&] { return rig.nodes[1].count("ZREM") == 1; }));
    }
}

TEST_CASE("cross_slot_charge: a lost node that serves both slots fails each part once") {
    Rig rig;
    rig.replicas = 1;
    const auto shared = policy(5, OnStoreFailure::local);
    rig.decision.items = {{&shared, kOnSecond}, {&shared, "user:bob"}};
    rig.nodes[1].evalsha = [&, first = true](const Words&) mutable {
        if (std::exchange(first, false)) return script_reply(true, 0, {0});
        rig.nodes[1].hang_up();
        return std::string();
    };
    CHECK(rig.decide() == Result::admitted);
    CHECK(rig.decision.store_failed);
    CHECK(rig.decision.decided().size() == 2);
}

TEST_CASE("cross_slot_charge: many at once, some given back, each has a result") {
    Rig rig;
    const auto some = policy(5);
    int asked = 0;
    rig.nodes[1].evalsha = [&](const Words& words) {
        if (Rig::is_give_back(words)) return std::string(":0\r\n");
        const bool admits = ++asked % 3 == 0;
        return script_reply(admits, 1'000, {admits ? 0 : 5});
    };
    std::array<LimitDecision, 90> decisions;
    for (LimitDecision& one : decisions) {
        one.items = {{&some, kOnFirst}, {&some, kOnSecond}};
        rig.limiter->decide(one, rig.sleeper);
    }
    CHECK(rig.wait([&] {
        return std::none_of(decisions.begin(), decisions.end(),
                            [](const LimitDecision& one) { return one.result == Result::pending; });
    }));
    const auto admitted =
        std::count_if(decisions.begin(), decisions.end(),
                      [](const LimitDecision& one) { return one.result == Result::admitted; });
    CHECK(admitted == 30);
    CHECK(rig.wait([&] { return rig.refunds(0) == 60; }));
    CHECK(rig.metrics_have("tidegate_store_given_back_total 60"));
}

}  // namespace tidegate::store::cross_slot_charge_test

// Leases on their way: batches, what they admit, and what the store is still asked.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "store/charge_script.hpp"
#include "store/limiter.hpp"
#include "store/scripts.hpp"
#include "unit/script_reply.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_redis.hpp"

namespace tidegate::store::leases_test {
namespace {

using namespace std::chrono_literals;
using test::script_reply;
using test::Words;
using Result = LimitDecision::Result;

limit::Policy leased(std::string name = "hot") {
    limit::Policy policy = test::policy(std::move(name), {test::window(100'000, 1min)});
    policy.lease_slack = 10'000;
    policy.on_store_failure = limit::OnStoreFailure::allow;
    return policy;
}

bool is_give_back(const Words& words) {
    return words.at(1) == give_back_script().sha1;
}

std::int64_t cost_of(const Words& words) {
    double cost = 0;
    std::memcpy(&cost, words.back().data(), sizeof cost);
    return static_cast<std::int64_t>(cost);
}

// The reply, as of a batch that was charged in the last microsecond of a sub-bucket.
std::string late(std::string reply) {
    std::string time;
    test::append_packed_double(test::kServerTime / 1'000'000 * 1'000'000 + 999'999, time);
    return reply.replace(reply.find('\n') + 1, time.size(), time);
}

// A thread whose Redis admits everything but what `denies` denies.
struct Rig : test::RedisFixture {
    Rig() : RedisFixture(all_scripts(), 100, 5s) {
        limiter.emplace(memory,
                        Limiter::RedisParts{.store = {client, "tg:"},
                                            .replicas = &replicas,
                                            .known_replicas = &known_replicas,
                                            .freed = &freed},
                        metrics);
        limiter->use_leases(true, 1);
        server.evalsha = [this](const Words& words) -> std::string {
            if (is_give_back(words)) return ":0\r\n";
            const auto keys = static_cast<std::size_t>(std::stoi(words.at(2)));
            const bool denied = denies && denies(words);
            const std::int64_t counted = denied ? 99'999 : 40;
            const std::size_t requests = std::max(1, int{words.at(3 + keys)[1]});
            return script_reply(std::vector<bool>(requests, !denied), 2'000'000,
                                std::vector<std::int64_t>(keys, counted));
        };
        run();
        await_up(true);
    }
    ~Rig() { stop(); }

    Result decide(const std::vector<const limit::Policy*>& policies, std::chrono::milliseconds at) {
        decision.items.clear();
        decision.cost = 1;
        decision.needs_settling = true;
        decision.owner = &owner;
        for (const limit::Policy* one : policies) decision.items.push_back({one, "constant:all"});
        limiter->decide(decision, sleeper, begin + at);
        CHECK(wait([&] { return !limiter->is_pending(decision); }));
        return decision.result;
    }
    // The policy has been met eight times in its last second, and a batch of twelve is there, for
    // which a request of it alone has waited.
    void heat(const std::vector<const limit::Policy*>& policies) {
        for (int i = 0; i < 8; ++i) decide(policies, 0ms);
        const std::size_t before = server.count("EVALSHA");
        decide(policies, 1'000ms);
        const std::size_t asked = policies.size() == 1 ? 1 : 2;
        CHECK(
            wait([&] { return server.count("EVALSHA") == before + asked && limiter->is_idle(); }));
    }
    std::size_t given_back() const {
        return static_cast<std::size_t>(std::count_if(
            server.seen.begin(), server.seen.end(),
            [](const Words& words) { return words.front() == "EVALSHA" && is_give_back(words); }));
    }

    std::function<bool(const Words&)> denies;
    // The beginning of a second: the interval of the policies here.
    SteadyTime begin{std::chrono::ceil<std::chrono::seconds>(
        std::chrono::steady_clock::now().time_since_epoch())};
    Replicas replicas{1};
    Replicas known_replicas{1};
    FreedIdentifiers freed;
    MemoryStore memory{MemoryStore::Options{}};
    std::optional<Limiter> limiter;
    Wakeup sleeper{io.get_executor()};
    std::shared_ptr<const config::Config> owner = std::make_shared<const config::Config>();
    LimitDecision decision;
};

}  // namespace

TEST_CASE("leases: a batch admits requests without asking, and then the store is asked again") {
    Rig rig;
    const auto hot = leased();
    rig.heat({&hot});
    CHECK(cost_of(rig.server.seen.back()) == 12);
    const std::size_t asked = rig.server.count("EVALSHA");
    CHECK(rig.decision.decided_by == StoreKind::lease);
    for (int i = 0; i < 11; ++i) {
        CHECK(rig.decide({&hot}, 1'001ms) == Result::admitted);
        CHECK(rig.decision.decided_by == StoreKind::lease);
        REQUIRE(rig.decision.verdict.limits.size() == 1);
        // 40 of others and the twelve are gone.
        CHECK(rig.decision.verdict.limits[0].remaining == 100'000 - 52 + 10 - i);
        rig.limiter->settle(rig.decision, 200);
    }
    CHECK(rig.server.count("EVALSHA") == asked);
    CHECK(rig.decide({&hot}, 1'002ms) == Result::admitted);
    CHECK(rig.server.count("EVALSHA") == asked + 1);
    CHECK(rig.given_back() == 0);
    CHECK(rig.metrics_have("tidegate_lease_batches_total{result=\"taken\"} 2"));
}

TEST_CASE("leases: of a request with other limits only those are asked, and all or none is taken") {
    Rig rig;
    const auto hot = leased();
    const auto other = test::policy("other", {test::window(100, 1h)});
    rig.heat({&hot, &other});
    const std::size_t asked = rig.server.count("EVALSHA");
    CHECK(rig.decide({&hot, &other}, 1'001ms) == Result::admitted);
    CHECK(rig.server.count("EVALSHA") == asked + 1);
    CHECK(rig.server.seen.back().at(2) == "1");
    CHECK(rig.server.seen.back().at(3) == "tg:4:other:{constant:all}");
    CHECK(rig.decision.decided_by == StoreKind::redis);
    REQUIRE(rig.decision.verdict.limits.size() == 2);
    CHECK(rig.decision.verdict.limits[0].remaining == 100'000 - 52 + 11);
    CHECK(rig.decision.verdict.limits[1].remaining == 59);
    CHECK(rig.decision.decided().size() == 2);
    // The other limit denies: the batch has its unit again.
    rig.denies = [](const Words&) { return true; };
    CHECK(rig.decide({&hot, &other}, 1'002ms) == Result::limited);
    CHECK_FALSE(rig.decision.verdict.limits.at(0).denied);
    CHECK(rig.decision.verdict.limits.at(1).denied);
    rig.denies = nullptr;
    for (int i = 0; i < 11; ++i) CHECK(rig.decide({&hot}, 1'003ms) == Result::admitted);
    CHECK(rig.decision.decided_by == StoreKind::lease);
    CHECK(rig.decision.verdict.limits.at(0).remaining == 100'000 - 52);
    CHECK(rig.given_back() == 0);
}

TEST_CASE(
    "leases: the end of a request gives back what other limits took, and no unit of a batch") {
    Rig rig;
    const auto hot = leased();
    limit::LimitSpec spec =
        test::spec_of(limit::Algorithm::sliding_window, 100, std::chrono::hours{1});
    spec.count = limit::Count::by_status;
    spec.statuses = {401};
    const auto guesses = test::policy("guesses", {test::made(spec)});
    rig.heat({&guesses, &hot});
    CHECK(rig.decide({&guesses, &hot}, 1'001ms) == Result::admitted);
    rig.limiter->settle(rig.decision, 200);
    CHECK(rig.wait([&] { return rig.given_back() == 1; }));
    CHECK(rig.server.seen.back().at(3) == "tg:4:guesses:{constant:all}");
    rig.limiter->settle(rig.decision, 200);
    CHECK(rig.decide({&guesses, &hot}, 1'002ms) == Result::admitted);
    rig.limiter->settle(rig.decision, 401);
    CHECK(rig.decide({&guesses, &hot}, 1'003ms) == Result::admitted);
    CHECK(rig.given_back() == 1);
}

TEST_CASE("leases: batches outlive a store that is away, and the failure policy decides the rest") {
    Rig rig;
    const auto hot = leased();
    auto other = test::policy("other", {test::window(100, 1h)});
    other.on_store_failure = limit::OnStoreFailure::deny;
    rig.heat({&hot, &other});
    rig.server.refuse();
    rig.await_up(false);
    CHECK(rig.decide({&hot}, 1'001ms) == Result::admitted);
    CHECK(rig.decision.decided_by == StoreKind::lease);
    CHECK(rig.decide({&hot, &other}, 1'002ms) == Result::unavailable);
    CHECK(rig.decision.store_failed);
    other.on_store_failure = limit::OnStoreFailure::allow;
    CHECK(rig.decide({&hot, &other}, 1'003ms) == Result::admitted);
    // What was decided is the lease alone.
    REQUIRE(rig.decision.decided().size() == 1);
    CHECK(rig.decision.decided()[0].policy == &hot);
    CHECK(rig.decision.verdict.limits.size() == 1);
    CHECK(rig.decision.verdict.limits.at(0).remaining == 100'000 - 52 + 10);
}

TEST_CASE("leases: requests wait for the batch that is under way, and share its fate") {
    Rig rig;
    const auto hot = leased();
    for (int i = 0; i < 8; ++i) rig.decide({&hot}, 0ms);
    const std::size_t asked = rig.server.count("EVALSHA");
    std::vector<std::unique_ptr<LimitDecision>> decisions;
    const auto ask = [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            decisions.push_back(std::make_unique<LimitDecision>());
            LimitDecision& one = *decisions.back();
            one.items = {{&hot, "constant:all"}};
            one.owner = &rig.owner;
            rig.limiter->decide(one, rig.sleeper, rig.begin + 1s);
            CHECK(one.result == Result::pending);
        }
    };
    const auto are_decided = [&] {
        return std::all_of(decisions.begin(), decisions.end(),
                           [&](const auto& one) { return !rig.limiter->is_pending(*one); });
    };
    const auto count = [&](StoreKind kind, Result result) {
        return std::count_if(decisions.begin(), decisions.end(), [&](const auto& one) {
            return one->decided_by == kind && one->result == result;
        });
    };
    SUBCASE("its units are shared, and further requests are charged by themselves") {
        ask(15);
        CHECK(rig.wait(are_decided));
        CHECK(count(StoreKind::lease, Result::admitted) == 12);
        CHECK(count(StoreKind::redis, Result::admitted) == 3);
        // The three share a command.
        CHECK(rig.server.count("EVALSHA") == asked + 2);
    }
    SUBCASE("it does not fit: each is charged by itself") {
        rig.denies = [](const Words& words) { return cost_of(words) > 1; };
        ask(5);
        CHECK(rig.wait(are_decided));
        CHECK(count(StoreKind::redis, Result::admitted) == 5);
    }
    SUBCASE("it fails: the failure policy decides") {
        rig.server.evalsha = [](const Words&) { return "-ERR no\r\n"; };
        ask(5);
        CHECK(rig.wait(are_decided));
        CHECK(count(StoreKind::local, Result::admitted) == 5);
        CHECK(rig.server.count("EVALSHA") == asked + 1);
    }
    SUBCASE("it is dropped: each is charged by itself") {
        ask(5);
        const limit::ChargeItem item{&hot, "constant:all"};
        rig.limiter->forget({&item, 1});
        CHECK(rig.wait(are_decided));
        CHECK(count(StoreKind::redis, Result::admitted) == 5);
        CHECK(rig.wait([&] { return rig.given_back() == 1; }));
    }
}

TEST_CASE("leases: requests whose batch comes after its end wait for the next one") {
    Rig rig;
    const auto hot = leased();
    const auto usual = rig.server.evalsha;
    bool is_late = true;
    rig.server.evalsha = [&](const Words& words) {
        if (is_give_back(words) || cost_of(words) == 1 || !std::exchange(is_late, false)) {
            return usual(words);
        }
        return late(usual(words));
    };
    const auto now = std::chrono::steady_clock::now();
    rig.begin = SteadyTime{std::chrono::floor<std::chrono::seconds>(now.time_since_epoch())} - 1s;
    for (int i = 0; i < 8; ++i) rig.decide({&hot}, 0ms);
    const std::size_t asked = rig.server.count("EVALSHA");
    std::vector<LimitDecision> decisions(5);
    for (LimitDecision& one : decisions) {
        one.items = {{&hot, "constant:all"}};
        one.owner = &rig.owner;
        rig.limiter->decide(one, rig.sleeper, now);
        CHECK(one.result == Result::pending);
    }
    const auto is_decided = [&](LimitDecision& one) { return !rig.limiter->is_pending(one); };
    CHECK(rig.wait([&] { return std::all_of(decisions.begin(), decisions.end(), is_decided); }));
    for (const LimitDecision& one : decisions) {
        CHECK(one.decided_by == StoreKind::lease);
        CHECK(one.result == Result::admitted);
    }
    CHECK(rig.wait([&] { return rig.given_back() == 1; }));
    CHECK(rig.server.count("EVALSHA") == asked + 3);
}

TEST_CASE("leases: a request waits for two batches at most, and its time begins anew then") {
    Rig rig;
    const auto hot = leased();
    const auto usual = rig.server.evalsha;
    rig.server.evalsha = [&](const Words& words) {
        if (is_give_back(words) || cost_of(words) == 1) return usual(words);
        return late(usual(words));
    };
    const auto now = std::chrono::steady_clock::now();
    rig.begin = SteadyTime{std::chrono::floor<std::chrono::seconds>(now.time_since_epoch())} - 1s;
    for (int i = 0; i < 8; ++i) rig.decide({&hot}, 0ms);
    const std::size_t asked = rig.server.count("EVALSHA");
    rig.decision.items = {{&hot, "constant:all"}};
    rig.limiter->decide(rig.decision, rig.sleeper, now);
    CHECK(rig.wait([&] { return !rig.limiter->is_pending(rig.decision); }));
    CHECK(rig.decision.result == Result::admitted);
    CHECK(rig.decision.decided_by == StoreKind::redis);
    CHECK(rig.decision.store_state.asked > now);
    CHECK(rig.wait([&] { return rig.given_back() == 2 && rig.limiter->is_idle(); }));
    CHECK(rig.server.count("EVALSHA") == asked + 5);
}

TEST_CASE("leases: a denial that Redis made before it had the units back is forgotten") {
    Rig rig;
    const auto hot = leased();
    const limit::ChargeItem item{&hot, "constant:all"};
    SteadyTime seen{};
    rig.server.evalsha = [&, usual = rig.server.evalsha](const Words& words) {
        if (is_give_back(words)) seen = std::chrono::steady_clock::now();
        return usual(words);
    };
    rig.heat({&hot});
    CHECK(rig.decide({&hot}, 1'001ms) == Result::admitted);
    const auto before = std::chrono::steady_clock::now();
    rig.limiter->use_leases(false, 1);
    CHECK(rig.freed.any({&item, 1}, before));
    CHECK(rig.wait([&] { return rig.limiter->is_idle(); }));
    REQUIRE(seen > before);
    CHECK(rig.freed.any({&item, 1}, seen));
}

// What they send then must not be written from inside the reply: the connection, which the server
// has closed, would be freed under the replies behind it.
TEST_CASE("leases: many requests whose batches were denied outlive a connection that is cut") {
    Rig rig;
    const auto hot = leased();
    std::vector<std::string> names;
    for (int i = 0; i < 40; ++i) names.push_back("user:" + std::to_string(i));
    std::vector<std::unique_ptr<LimitDecision>> decisions;
    const auto ask_all = [&](std::chrono::milliseconds at) {
        for (const std::string& name : names) {
            decisions.push_back(std::make_unique<LimitDecision>());
            LimitDecision& one = *decisions.back();
            one.items = {{&hot, name}};
            one.owner = &rig.owner;
            rig.limiter->decide(one, rig.sleeper, rig.begin + at);
        }
    };
    const auto are_decided = [&] {
        return std::all_of(decisions.begin(), decisions.end(),
                           [&](const auto& one) { return !rig.limiter->is_pending(*one); });
    };
    for (int i = 0; i < 4; ++i) {
        ask_all(0ms);
        REQUIRE(rig.wait(are_decided));
    }
    std::string denials;
    std::size_t batches = 0;
    rig.denies = [](const Words&) { return true; };
    rig.server.evalsha = [&, answer = rig.server.evalsha](const Words& words) -> std::string {
        if (cost_of(words) == 1) return "";
        ++batches;
        denials += answer(words);
        return "";
    };
    decisions.clear();
    ask_all(1s);
    REQUIRE(rig.wait([&] { return batches >= 36; }));
    rig.server.say(denials);
    rig.server.hang_up();
    CHECK(rig.wait(are_decided));
    CHECK(std::all_of(decisions.begin(), decisions.end(), [](const auto& one) {
        return one->decided_by == StoreKind::local && one->result == Result::admitted;
    }));
    CHECK(rig.metrics_have("tidegate_lease_batches_total{result=\"denied\"} " +
                           std::to_string(batches)));
}

TEST_CASE("leases: the last units are charged one by one, once a batch does not fit any more") {
    Rig rig;
    const auto hot = leased();
    rig.denies = [](const Words& words) { return cost_of(words) > 1; };
    for (int i = 0; i < 8; ++i) rig.decide({&hot}, 0ms);
    const std::size_t asked = rig.server.count("EVALSHA");
    for (int i = 0; i < 20; ++i) {
        CHECK(rig.decide({&hot}, 1'000ms) == Result::admitted);
        CHECK(rig.decision.decided_by == StoreKind::redis);
        CHECK(rig.wait([&] { return rig.limiter->is_idle(); }));
    }
    CHECK(rig.server.count("EVALSHA") == asked + 21);
    CHECK(rig.metrics_have("tidegate_lease_batches_total{result=\"denied\"} 1"));
}

TEST_CASE(
    "leases: a reset, a reload, a drain and the end of the sub-bucket give back what is left") {
    Rig rig;
    const auto hot = leased();
    rig.heat({&hot});
    CHECK(rig.decide({&hot}, 1'001ms) == Result::admitted);
    SUBCASE("a reset") {
        const limit::ChargeItem item{&hot, "constant:all"};
        rig.limiter->forget({&item, 1});
    }
    SUBCASE("a reload") {
        rig.limiter->use_leases(true, 2);
    }
    SUBCASE("a drain") {
        rig.limiter->use_leases(false, 1);
    }
    SUBCASE("the end") {
        rig.limiter->tend_leases(rig.begin + 2s);
    }
    // A worker that drains waits until Redis has answered, whatever it tends meanwhile.
    rig.limiter->tend_leases(rig.begin + 2s);
    CHECK_FALSE(rig.limiter->is_idle());
    CHECK(rig.wait([&] { return rig.limiter->is_idle(); }));
    CHECK(rig.given_back() == 1);
    CHECK(rig.metrics_have("tidegate_lease_units_total{units=\"given_back\"} 10"));
    CHECK(rig.metrics_have("tidegate_lease_held_units 0"));
    const std::size_t asked = rig.server.count("EVALSHA");
    CHECK(rig.decide({&hot}, 1'002ms) == Result::admitted);
    CHECK(rig.server.count("EVALSHA") == asked + 1);
}

TEST_CASE(
    "leases: a cold key asks for no batch, nor one while the number of proxies is not known") {
    Rig rig;
    const auto hot = leased();
    for (int i = 0; i < 3; ++i) rig.decide({&hot}, 0ms);
    for (int i = 0; i < 3; ++i) rig.decide({&hot}, 1'000ms);
    CHECK(rig.server.count("EVALSHA") == 6);
    rig.known_replicas = 0;
    for (int i = 0; i < 9; ++i) rig.decide({&hot}, 2'000ms);
    for (int i = 0; i < 9; ++i) rig.decide({&hot}, 3'000ms);
    CHECK(rig.server.count("EVALSHA") == 24);
    // Nor does one that has its store to itself, as a reservation has.
    rig.known_replicas = 1;
    for (int i = 0; i < 8; ++i) rig.decide({&hot}, 10'000ms);
    rig.decision.is_alone = true;
    for (int i = 0; i < 9; ++i) rig.decide({&hot}, 11'000ms);
    CHECK(rig.server.count("EVALSHA") == 41);
}

}  // namespace tidegate::store::leases_test

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "unit/balance_world.hpp"

namespace tidegate::balance::health_test {
namespace {

using Kind = HealthChange::Kind;

const std::vector<int> kFour{1, 1, 1, 1};

}  // namespace

TEST_CASE("health: the first check decides at once") {
    World world({1, 1, 1});
    CHECK(world.at(0).verdict() == CheckVerdict::unknown);
    CHECK(world.at(0).share(kBegin, 10s) == kFullShare);
    CHECK(world.health.note_check(world.at(0), true, kBegin).kind == Kind::none);
    CHECK(world.at(0).verdict() == CheckVerdict::healthy);
    CHECK(world.at(0).share(kBegin, 10s) == kFullShare);  // nothing to come back from
    CHECK(world.health.note_check(world.at(1), false, kBegin).kind == Kind::became_unhealthy);
    CHECK(world.at(1).share(kBegin, 10s) == 0);
    CHECK(world.at(2).verdict() == CheckVerdict::unknown);
}

TEST_CASE("health: three failed checks in a row make a server unhealthy, two good ones healthy") {
    World world({1, 1});
    ServerState& server = world.at(0);
    const auto check = [&](bool good) {
        return world.health.note_check(server, good, kBegin).kind;
    };
    check(true);
    CHECK(check(false) == Kind::none);
    CHECK(check(false) == Kind::none);
    CHECK(check(true) == Kind::none);  // the row is broken
    CHECK(check(false) == Kind::none);
    CHECK(check(false) == Kind::none);
    CHECK(server.rank(kBegin) == Rank::usable);
    CHECK(check(false) == Kind::became_unhealthy);
    CHECK(server.rank(kBegin) == Rank::out);
    CHECK(check(true) == Kind::none);
    CHECK(check(false) == Kind::none);
    CHECK(check(true) == Kind::none);
    CHECK(server.rank(kBegin) == Rank::out);
    CHECK(check(true) == Kind::became_healthy);
    CHECK(server.rank(kBegin) == Rank::usable);
}

TEST_CASE("health: a server that became healthy starts slowly, from a tenth to all of its weight") {
    World world({1, 1});
    ServerState& server = world.at(0);
    world.check(0, false);
    world.check(0, true, 2);
    CHECK(server.share(kBegin, 10s) == 100);
    CHECK(server.share(kBegin + 1s, 10s) == 190);
    CHECK(server.share(kBegin + 5s, 10s) == 550);
    CHECK(server.share(kBegin + 10s - 1ns, 10s) == 999);
    CHECK(server.share(kBegin + 10s, 10s) == kFullShare);
    CHECK(server.share(kBegin, 0s) == kFullShare);
}

TEST_CASE("health: five failures in a row eject, and a success between them begins the row anew") {
    World world({1, 1});
    ServerState& server = world.at(0);
    CHECK(world.fail(0, kBegin, 4).kind == Kind::none);
    CHECK(server.failures() == 4);
    CHECK(world.health.note_success(server));
    CHECK_FALSE(world.health.note_success(server));
    CHECK(world.fail(0, kBegin, 4, ServerFailure::broken).kind == Kind::none);
    const HealthChange change = world.fail(0, kBegin, 1, ServerFailure::connect);
    CHECK(change.kind == Kind::ejected);
    CHECK(change.ejected_for == 10s);
    CHECK(change.returned.empty());
    CHECK(server.is_ejected(kBegin + 10s - 1ns));
    CHECK(server.share(kBegin + 10s - 1ns, 0s) == 0);
    CHECK(server.share(kBegin + 10s, 0s) == kFullShare);
}

TEST_CASE("health: an ejected server comes back through slow start") {
    World world({1, 1});
    world.fail(0, kBegin);
    CHECK(world.at(0).share(kBegin + 10s, 10s) == 100);
    CHECK(world.at(0).share(kBegin + 15s, 10s) == 550);
    CHECK(world.at(0).share(kBegin + 20s, 10s) == kFullShare);
}

TEST_CASE("health: failures of an ejected server neither prolong it nor count towards the next") {
    World world({1, 1});
    world.fail(0, kBegin);
    CHECK(world.fail(0, kBegin + 9s, 100).kind == Kind::none);
    CHECK(world.at(0).rank(kBegin + 10s) == Rank::usable);
    CHECK(world.fail(0, kBegin + 10s, 4).kind == Kind::none);
    CHECK(world.fail(0, kBegin + 10s, 1).kind == Kind::ejected);
}

TEST_CASE("health: each ejection in a row lasts twice as long as the last, up to five minutes") {
    World world({1, 1});
    SteadyTime now = kBegin;
    for (const auto duration : {10s, 20s, 40s, 80s, 160s, 300s, 300s}) {
        CHECK(world.fail(0, now).ejected_for == duration);
        now += duration + 1s;
    }
}

TEST_CASE("health: a server that stayed in for five minutes begins with short ejections again") {
    World world({1, 1});
    CHECK(world.fail(0, kBegin).ejected_for == 10s);
    const SteadyTime back = kBegin + 10s;
    CHECK(world.fail(0, back + 5min - 1ns).ejected_for == 20s);
    const SteadyTime again = back + 5min - 1ns + 20s;
    CHECK(world.fail(0, again + 5min).ejected_for == 10s);
}

TEST_CASE("health: an ejection that is configured longer than five minutes does not grow") {
    World world({1, 1}, {.failures = 1, .duration = 10min});
    CHECK(world.fail(0, kBegin, 1).ejected_for == 10min);
    CHECK(world.fail(0, kBegin + 11min, 1).ejected_for == 10min);
}

TEST_CASE("health: beyond at_most, the server that was out longest comes back early") {
    World world(kFour);
    world.fail(2, kBegin);
    world.fail(0, kBegin);
    CHECK(world.at(2).is_ejected(kBegin + 1s));
    const HealthChange change = world.fail(1, kBegin + 1s);
    CHECK(change.kind == Kind::ejected);
    REQUIRE(change.returned.size() == 1);
    CHECK(change.returned.front() == &world.at(2));
    CHECK(world.at(2).share(kBegin + 1s, 10s) == 100);  // through slow start
    CHECK(world.at(2).share(kBegin + 6s, 10s) == 550);
    CHECK(world.at(0).is_ejected(kBegin + 1s));
    CHECK(world.at(1).is_ejected(kBegin + 1s));
    // An ejection that was cut short does not make the next one longer.
    CHECK(world.fail(2, kBegin + 2s).ejected_for == 10s);
    CHECK_FALSE(world.at(0).is_ejected(kBegin + 2s));
}

TEST_CASE("health: at_most is rounded down, but one of two or more may always be ejected") {
    World fifth({1, 1, 1, 1, 1}, {.failures = 1, .at_most = 50});
    for (std::size_t i = 0; i < 5; ++i) fifth.fail(i, kBegin, 1);
    CHECK(std::count_if(fifth.list.begin(), fifth.list.end(),
                        [](const ServerState* server) { return server->is_ejected(kBegin); }) == 2);
    World two({1, 1}, {.failures = 1, .at_most = 10});
    CHECK(two.fail(0, kBegin, 1).returned.empty());
    CHECK(two.fail(1, kBegin, 1).returned.size() == 1);
    World all({1, 1}, {.failures = 1, .at_most = 100});
    CHECK(all.fail(0, kBegin, 1).returned.empty());
    CHECK(all.fail(1, kBegin, 1).returned.empty());
}

TEST_CASE("health: a lone server is never ejected, and servers that drain do not count") {
    World lone({1});
    CHECK(lone.fail(0, kBegin, 100).kind == Kind::none);
    CHECK(lone.at(0).rank(kBegin) == Rank::usable);

    World two({1, 1});
    const auto left = two.servers.back();
    two.servers.pop_back();
    two.use();
    CHECK(left->is_draining());
    CHECK(left->rank(kBegin) == Rank::out);
    CHECK(two.fail(0, kBegin, 100).kind == Kind::none);
    CHECK(two.health.note_failure(*left, ServerFailure::timeout, kBegin).kind == Kind::none);
}

TEST_CASE("health: of the addresses of a name, one that fails again is avoided twice as long") {
    World world({1, 1}, HealthSettings{});
    world.at(0).set_shares_name(true);
    SteadyTime now = kBegin;
    for (const auto time : {1s, 2s, 4s, 8s, 16s, 30s, 30s}) {
        CAPTURE(time.count());
        for (std::size_t i = 0; i < 2; ++i) world.fail(i, now, 20, ServerFailure::connect);
        CHECK(world.at(1).is_avoided(now + 1s - 1ms));
        CHECK_FALSE(world.at(1).is_avoided(now + 1s));
        // Another failure meanwhile begins the same time anew.
        world.fail(0, now + time - 1ms, 1, ServerFailure::connect);
        now += time + time - 1ms;
        CHECK(world.at(0).is_avoided(now - 1ms));
        CHECK_FALSE(world.at(0).is_avoided(now));
    }
    CHECK(world.health.note_success(world.at(0)));
    world.fail(0, now, 1, ServerFailure::connect);
    CHECK_FALSE(world.at(0).is_avoided(now + 1s));
}

TEST_CASE("health: an address that its check finds healthy again is not avoided any more") {
    World world({1, 1}, HealthSettings{});
    world.at(0).set_shares_name(true);
    SteadyTime now = kBegin;
    for (int i = 0; i < 6; ++i, now += 31s) world.fail(0, now, 1, ServerFailure::connect);
    world.fail(0, now, 1, ServerFailure::connect);
    world.check(0, false, 3, now);
    world.check(0, true, 2, now);
    CHECK(world.at(0).rank(now) == Rank::usable);
}

TEST_CASE("health: a server that is left alone comes back early") {
    World world({1, 1});
    world.fail(0, kBegin);
    world.servers.pop_back();
    const auto returned = world.use(kBegin + 1s);
    REQUIRE(returned.size() == 1);
    CHECK(returned.front() == &world.at(0));
    CHECK(world.at(0).rank(kBegin + 1s) == Rank::usable);
}

TEST_CASE(
    "health: a server that comes later starts slowly, and one that comes again drains no more") {
    World world({1, 1});
    CHECK(world.at(0).share(kBegin, 10s) == kFullShare);
    const auto gone = world.servers.back();
    world.servers.pop_back();
    world.use();
    CHECK(gone->share(kBegin, 10s) == 0);
    world.servers.push_back(gone);
    world.servers.push_back(std::make_shared<ServerState>(99, 1));
    world.use(kBegin + 1s);
    CHECK(world.at(0).share(kBegin + 1s, 10s) == kFullShare);
    CHECK(gone->share(kBegin + 1s, 10s) == 100);
    CHECK(world.at(2).share(kBegin + 1s, 10s) == 100);
}

TEST_CASE("health: no ejection makes an unhealthy server usable, neither its end nor a return") {
    World world({1, 1, 1, 1}, {.failures = 1});
    world.fail(0, kBegin, 1);
    world.fail(1, kBegin, 1);
    world.check(0, false);
    CHECK(world.at(0).rank(kBegin + 10s) == Rank::out);
    CHECK(world.at(0).rank(kBegin + 1h) == Rank::out);
    // It does not count to at_most: bringing it back would bring nothing.
    CHECK(world.fail(2, kBegin, 1).returned.empty());
    CHECK(world.fail(0, kBegin, 100).kind == Kind::none);
    CHECK(world.at(0).rank(kBegin) == Rank::out);
}

TEST_CASE("health: a server that becomes healthy is no longer ejected, and starts slowly") {
    World world({1, 1}, {.failures = 1});
    world.fail(0, kBegin, 1);
    world.check(0, false);
    world.check(0, true, 2, kBegin + 1s);
    CHECK(world.at(0).rank(kBegin + 1s) == Rank::usable);
    CHECK(world.at(0).share(kBegin + 1s, 10s) == 100);
    CHECK(world.at(0).share(kBegin + 6s, 10s) == 550);
    // A check that finds what is known already does not end an ejection.
    world.fail(0, kBegin + 20s, 1);
    world.check(0, true, 5, kBegin + 21s);
    CHECK(world.at(0).rank(kBegin + 21s) == Rank::ejected);
}

TEST_CASE("health: without ejection, failures only make others be tried first") {
    World world({1, 1}, HealthSettings{});
    CHECK(world.fail(0, kBegin, 100, ServerFailure::connect).kind == Kind::none);
    CHECK(world.at(0).rank(kBegin) == Rank::avoided);
    CHECK(world.at(0).rank(kBegin + 1s) == Rank::usable);
    world.fail(0, kBegin, 1, ServerFailure::connect);
    CHECK(world.health.note_success(world.at(0)));
    CHECK(world.at(0).rank(kBegin) == Rank::usable);
    world.fail(0, kBegin, 100, ServerFailure::timeout);
    CHECK(world.at(0).rank(kBegin) == Rank::usable);
}

TEST_CASE("health: no more than at_most are out, and one is left, whatever threads note at once") {
    World world({1, 1, 1, 1, 1, 1}, {.failures = 2, .duration = 1ms});
    std::atomic<int> ejected{0};
    std::atomic<int> in_vain{0};
    const auto run = [&](std::size_t thread) {
        SteadyTime now = kBegin;
        RoundRobin choice(thread, 1ms);
        choice.reset(world.list);
        for (std::size_t i = 0; i < 5'000; ++i, now += 10us) {
            const Chosen chosen = choice.choose(now);
            if (!chosen) {
                ++in_vain;
                continue;
            }
            ServerState& server = world.at(*chosen);
            server.begin_request();
            if ((i + thread) % 3 == 0) {
                world.health.note_success(server);
            } else if (world.health.note_failure(server, ServerFailure::broken, now).kind ==
                       Kind::ejected) {
                ++ejected;
            }
            if (thread == 0) world.health.note_check(world.at(i % 6), i % 5 != 0, now);
            server.end_request();
        }
    };
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 4; ++thread) threads.emplace_back(run, thread);
    for (std::thread& thread : threads) thread.join();
    CHECK(ejected > 0);
    CHECK(in_vain == 0);
    CHECK(count_active(world.list) == 0);
    const SteadyTime end = kBegin + 1h;
    for (std::size_t i = 0; i < 6; ++i) {
        world.check(i, true, 2, end);
        world.fail(i, end, 2);
    }
    CHECK(std::count_if(world.list.begin(), world.list.end(),
                        [&](const ServerState* server) { return server->is_ejected(end); }) == 3);
}

}  // namespace tidegate::balance::health_test

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "store/replica_heartbeat.hpp"
#include "unit/store_redis.hpp"

namespace tidegate::store::replica_heartbeat_test {
namespace {

using namespace std::chrono_literals;
using test::Words;

constexpr SteadyTime kStart{100h};

struct Rig : test::RedisFixture {
    explicit Rig(int configured, int assumed = 1, int last_seen = 0)
        : RedisFixture(std::vector<const redis::Script*>{}) {
        server.other = [this](const Words& words) { return answer(words); };
        heartbeat = std::make_shared<Heartbeat>(
            io.get_executor(), RedisStore{client, "tg:"},
            Heartbeat::Options{.name = "me",
                               .replicas = {.configured = configured, .assumed = assumed},
                               .last_seen = last_seen},
            figures);
        ++running;
        spawn(io.get_executor(), Heartbeat::run(heartbeat),
              [this](const std::exception_ptr&) { --running; });
        run();
    }
    ~Rig() {
        heartbeat->stop();
        stop();
    }

    std::string answer(const Words& words) const {
        if (words.front() == "TIME") return "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n";
        return words.front() == "ZCARD" ? zcard : ":1\r\n";
    }

    std::string zcard = ":1\r\n";
    ReplicaFigures figures{-1, -1, -1};
    const Replicas& replicas = figures.number;
    std::shared_ptr<Heartbeat> heartbeat;
};

}  // namespace

TEST_CASE("heartbeat: the configured number holds until Redis counts more") {
    Rig rig(2);
    CHECK(rig.replicas == 2);
    std::int64_t alive = 0;
    SUBCASE("more") {
        alive = 5;
    }
    SUBCASE("fewer") {
        alive = 1;
    }
    rig.zcard = ":" + std::to_string(alive) + "\r\n";
    CHECK(rig.wait([&] { return rig.server.count("ZCARD") == 1; }));
    if (alive == 5) CHECK(rig.wait([&] { return rig.replicas == 5; }));
    CHECK(rig.replicas == std::max<std::int64_t>(2, alive));
    const std::vector<Words> beat = {{"TIME"},
                                     {"ZADD", "tg:{replicas}", "1700000000", "me"},
                                     {"ZREMRANGEBYSCORE", "tg:{replicas}", "-inf", "(1699999990"},
                                     {"EXPIRE", "tg:{replicas}", "10"},
                                     {"ZCARD", "tg:{replicas}"}};
    REQUIRE(rig.server.seen.size() >= beat.size());
    CHECK(std::equal(beat.begin(), beat.end(), rig.server.seen.end() - 5));
}

TEST_CASE("heartbeat: started before there is a connection, it counts as soon as there is one") {
    Rig rig(0);
    rig.server.refuse();
    rig.zcard = ":3\r\n";
    rig.await_up(false);
    CHECK(rig.replicas == 1);
    CHECK(rig.figures.known == 0);
    CHECK(rig.figures.seen == 0);
    rig.server.listen();
    CHECK(rig.wait([&] { return rig.replicas == 3; }));
    CHECK(rig.figures.known == 3);
    CHECK(rig.figures.seen == 3);
}

TEST_CASE("heartbeat: until Redis counts, what is assumed holds, or what was seen last") {
    Rig assumed(0, 4);
    CHECK(assumed.replicas == 4);
    CHECK(assumed.figures.known == 0);
    assumed.zcard = ":2\r\n";
    CHECK(assumed.wait([&] { return assumed.replicas == 2; }));
    CHECK(assumed.figures.known == 2);
    Rig seen(0, 4, 7);
    CHECK(seen.replicas == 7);
    CHECK(seen.figures.known == 7);
    CHECK(seen.figures.seen == 0);
}

TEST_CASE("heartbeat: an answer that is no number leaves the replicas unknown") {
    for (const char* command : {"TIME", "ZADD", "ZCARD"}) {
        for (const char* nonsense : {"-ERR no\r\n", "+5\r\n", "$-1\r\n", "*0\r\n"}) {
            CAPTURE(command);
            CAPTURE(nonsense);
            Rig rig(0);
            int beats = 0;
            rig.server.other = [&](const Words& words) -> std::string {
                if (words.front() == "TIME") ++beats;
                return words.front() == command ? nonsense : rig.answer(words);
            };
            CHECK(rig.wait([&] { return beats == 2; }));
            CHECK(rig.replicas == 1);
            CHECK(rig.figures.known == 0);
            CHECK(rig.figures.seen == 0);
        }
    }
}

TEST_CASE("replica_count: never below what is configured, nor below one, nor absurdly many") {
    ReplicaCount count({.configured = 3});
    CHECK(count.update(1, kStart) == 3);
    CHECK(count.update(4, kStart) == 4);
    CHECK(ReplicaCount({}).update(0, kStart) == 1);
    CHECK(ReplicaCount({}).update(-5, kStart) == 1);
    CHECK(ReplicaCount({}).update(INT64_MAX, kStart) == 1 << 20);
}

TEST_CASE(
    "replica_count: a larger count holds at once, a smaller one after 10 s without a larger") {
    ReplicaCount count({});
    CHECK(count.update(3, kStart) == 3);
    CHECK(count.update(1, kStart + 2s) == 3);  // Redis lost its data: the others will send again
    CHECK(count.update(2, kStart + 9'999ms) == 3);
    CHECK(count.update(2, kStart + 10s) == 2);
    CHECK(count.update(4, kStart + 11s) == 4);
    CHECK(count.update(4, kStart + 20s) == 4);  // counted again
    CHECK(count.update(1, kStart + 29s) == 4);
    CHECK(count.update(1, kStart + 30s) == 1);
}

TEST_CASE("replica_count: another number is configured while proxies come and go") {
    ReplicaCount count({.configured = 3});
    count.configure({.configured = 5});
    CHECK(count.number() == 5);
    CHECK(count.update(2, kStart) == 5);
    count.configure({});
    CHECK(count.number() == 2);
    CHECK(count.update(4, kStart + 1s) == 4);
}

TEST_CASE("replica_count: what is assumed holds only while nothing else is known") {
    ReplicaCount count({.assumed = 5});
    CHECK(count.number() == 5);
    CHECK_FALSE(count.is_known());
    CHECK(count.update(2, kStart) == 2);
    CHECK(count.is_known());
    CHECK(ReplicaCount({.configured = 3, .assumed = 5}).number() == 3);
    CHECK(ReplicaCount({.assumed = 0}).number() == 1);
}

TEST_CASE("replica_count: what a process before saw holds like a count, and ages from the first") {
    ReplicaCount count({.assumed = 2}, 6);
    CHECK(count.number() == 6);
    CHECK(count.seen() == 0);
    // A Redis that has lost its data counts this proxy first.
    CHECK(count.update(1, kStart) == 6);
    CHECK(count.seen() == 6);
    CHECK(count.update(1, kStart + 9'999ms) == 6);
    CHECK(count.update(1, kStart + 10s) == 1);
    CHECK(ReplicaCount({.configured = 8}, 6).number() == 8);
}

TEST_CASE("heartbeat: a number that is no longer configured holds until Redis counts another") {
    Rig rig(4);
    CHECK(rig.figures.known == 4);
    rig.heartbeat->configure({.configured = 6});
    CHECK(rig.replicas == 6);
    CHECK(rig.figures.known == 6);
    rig.heartbeat->configure({});
    CHECK(rig.replicas == 6);
    CHECK(rig.figures.known == 6);
}

}  // namespace tidegate::store::replica_heartbeat_test

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "store/heartbeat.hpp"
#include "unit/fake_redis.hpp"

namespace tidegate::store {
namespace {

using namespace std::chrono_literals;
using test::FakeRedis;
using test::run_until;
using test::Words;

constexpr redis::SteadyTime kStart{100h};

struct Rig {
    explicit Rig(int configured) {
        redis::ClientOptions options;
        options.host = "127.0.0.1";
        options.port = server.port();
        options.probe_every = 20ms;
        client =
            std::make_shared<redis::Client>(io.get_executor(), options, redis::Client::OnState{});
        server.other = [this](const Words& words) { return answer(words); };
        heartbeat = std::make_shared<Heartbeat>(
            io.get_executor(), client,
            Heartbeat::Options{.key_prefix = "tg:", .name = "me", .configured = configured},
            replicas);
        spawn(io.get_executor(), Heartbeat::run(heartbeat),
              [this](const std::exception_ptr&) { ++ended; });
        spawn(io.get_executor(), redis::Client::run(client),
              [this](const std::exception_ptr&) { ++ended; });
    }
    ~Rig() {
        heartbeat->stop();
        client->stop();
        CHECK(run_until(
            io, [&] { return ended == 2; }, 1s));
    }

    std::string answer(const Words& words) const {
        if (words.front() == "TIME") return "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n";
        return words.front() == "ZCARD" ? zcard : ":1\r\n";
    }

    std::string zcard = ":1\r\n";
    asio::io_context io;
    FakeRedis server{io};
    Replicas replicas{-1};
    std::shared_ptr<redis::Client> client;
    std::shared_ptr<Heartbeat> heartbeat;
    int ended = 0;
};

}  // namespace

TEST_CASE("heartbeat: what is configured holds until Redis tells of more") {
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
    CHECK(run_until(rig.io, [&] { return rig.server.count("ZCARD") == 1; }));
    if (alive == 5) CHECK(run_until(rig.io, [&] { return rig.replicas == 5; }));
    CHECK(rig.replicas == std::max<std::int64_t>(2, alive));
    const std::vector<Words> beat = {{"TIME"},
                                     {"ZADD", "tg:{replicas}", "1700000000", "me"},
                                     {"ZREMRANGEBYSCORE", "tg:{replicas}", "-inf", "(1699999990"},
                                     {"EXPIRE", "tg:{replicas}", "10"},
                                     {"ZCARD", "tg:{replicas}"}};
    REQUIRE(rig.server.seen.size() >= beat.size());
    CHECK(std::equal(beat.begin(), beat.end(), rig.server.seen.end() - 5));
}

TEST_CASE("heartbeat: begun before there is a connection, it counts as soon as there is one") {
    Rig rig(0);
    rig.server.refuse();
    rig.zcard = ":3\r\n";
    CHECK(run_until(rig.io, [&] { return !rig.client->is_up(); }));
    CHECK(rig.replicas == 0);
    rig.server.listen();
    CHECK(run_until(rig.io, [&] { return rig.replicas == 3; }));
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
            CHECK(run_until(rig.io, [&] { return beats == 2; }));
            CHECK(rig.replicas == 0);
        }
    }
}

TEST_CASE("replica_count: never below what is configured, nor below one, nor absurdly many") {
    ReplicaCount count(3);
    CHECK(count.hear(1, kStart) == 3);
    CHECK(count.hear(4, kStart) == 4);
    CHECK(ReplicaCount(0).hear(0, kStart) == 1);
    CHECK(ReplicaCount(0).hear(-5, kStart) == 1);
    CHECK(ReplicaCount(0).hear(INT64_MAX, kStart) == 1 << 20);
}

TEST_CASE("replica_count: more is believed at once, fewer when nobody told of more for 10 s") {
    ReplicaCount count(0);
    CHECK(count.hear(3, kStart) == 3);
    CHECK(count.hear(1, kStart + 2s) == 3);  // Redis lost its data: the others will speak again
    CHECK(count.hear(2, kStart + 9'999ms) == 3);
    CHECK(count.hear(2, kStart + 10s) == 2);
    CHECK(count.hear(4, kStart + 11s) == 4);
    CHECK(count.hear(4, kStart + 20s) == 4);  // told of again
    CHECK(count.hear(1, kStart + 29s) == 4);
    CHECK(count.hear(1, kStart + 30s) == 1);
}

TEST_CASE("replica_count: another number is configured while proxies come and go") {
    ReplicaCount count(3);
    CHECK(count.configure(5) == 5);
    CHECK(count.hear(2, kStart) == 5);
    CHECK(count.configure(0) == 2);
    CHECK(count.hear(4, kStart + 1s) == 4);
}

TEST_CASE("heartbeat: a number that is no longer configured is known until Redis tells another") {
    Rig rig(4);
    rig.heartbeat->configure(6);
    CHECK(rig.replicas == 6);
    rig.heartbeat->configure(0);
    CHECK(rig.replicas == 6);
}

}  // namespace tidegate::store

// What requests have cost, while Redis cannot count it, and at a stop.
#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "fault_proxy.hpp"
#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

namespace tidegate::test::costs_stop_test {

namespace {

using nlohmann::json;

// A decision that came too late would be counted here and there.
std::string redis_at(std::uint16_t port) {
    return "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(port) +
           "/0\", timeout: 2s, breaker: {probe_every: 20ms}}}\n";
}

std::string counting(const Upstream& upstream) {
    return "policies:\n  tokens: {key: ip, limits: [5000/h], cost: {reserve: {plus_body: 0}, "
           "settle: auto}}\nupstreams: {api: {servers: [" +
           upstream.url() + "]}}\nroutes: [{name: all, upstream: api, policies: [tokens]}]\n";
}

// What Redis has counted; -1: it does not answer.
std::int64_t counted(const Tidegate& tidegate) {
    const json all =
        json::parse(tidegate.admin("/api/inspect?identifier=ip:127.0.0.1").value().body);
    if (!all.contains("identifiers")) return -1;
    return all.at("identifiers").at(0).at("policies").at(0).at("limits").at(0).at("counted");
}

// Requests that reserve `reserved` tokens each, and have taken 120 when the upstream may answer.
struct Asked {
    explicit Asked(int reserved, const std::string& more = "", int requests = 1)
        : tidegate(redis_at(network.port()) + more + counting(upstream)) {
        for (int i = 0; i < requests; ++i) {
            clients.push_back(tidegate.client());
            clients.back().send(post_request(
                "/v1/chat",
                R"({"model":"gpt-x","messages":[],"max_tokens":)" + std::to_string(reserved) + "}",
                "Content-Type: application/json\r\n"));
        }
        CHECK_SOON(counted(tidegate) == requests * reserved);
    }
    ~Asked() { may_answer = true; }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;

    void end_requests() {
        may_answer = true;
        for (RawClient& client : clients) CHECK(client.response().status() == 200);
        clients.clear();
    }
    // By a proxy that comes after it.
    std::int64_t counted_in_the_end() const {
        const Tidegate next(redis_at(redis.port()) + counting(upstream));
        return counted(next);
    }

    std::atomic<bool> may_answer{false};
    const Upstream upstream{Upstream::answering([this](const Message&) {
        while (!may_answer) std::this_thread::sleep_for(milliseconds{1});
        return ok(R"({"usage":{"prompt_tokens":100,"completion_tokens":20}})",
                  "Content-Type: application/json\r\n");
    })};
    RedisServer redis;
    FaultProxy network{redis.port()};
    Tidegate tidegate;
    std::vector<RawClient> clients;
};

constexpr milliseconds kAWhile{500};

}  // namespace

TEST_CASE("costs: what requests cost while Redis takes no writes is counted when it does, once") {
    using Words = std::vector<std::string>;
    Words ends_writes{"REPLICAOF", "127.0.0.1", "1"};
    Words begins_writes{"REPLICAOF", "NO", "ONE"};
    milliseconds time = kAWhile;
    SUBCASE("a replica") {}
    SUBCASE("its memory is full, for longer than three attempts take") {
        ends_writes = {"CONFIG", "SET", "maxmemory", "1"};
        begins_writes = {"CONFIG", "SET", "maxmemory", "0"};
        time = 8 * kAWhile;
    }
    constexpr int kRequests = 8;
    for (const int reserved : {10, 300}) {
        CAPTURE(reserved);
        // One thread: what these requests give back is in one command or in few.
        Asked asked(reserved, "threads: 1\n", kRequests);
        asked.redis.text(ends_writes);
        asked.end_requests();
        std::this_thread::sleep_for(time);
        asked.redis.text(begins_writes);
        CHECK_SOON(counted(asked.tidegate) == kRequests * 120);
        CHECK(asked.tidegate.stop() == 0);
        CHECK(asked.counted_in_the_end() == kRequests * 120);
    }
}

TEST_CASE("costs: a stop waits until Redis, which was not ready, has counted what a request cost") {
    int reserved = 10;
    SUBCASE("more than it reserved") {}
    SUBCASE("less than it reserved") {
        reserved = 700;
    }
    Asked asked(reserved);
    asked.redis.text({"CONFIG", "SET", "maxmemory", "1"});
    asked.end_requests();
    asked.tidegate.signal(SIGTERM);
    CHECK_FALSE(asked.tidegate.wait(kAWhile));
    asked.redis.text({"CONFIG", "SET", "maxmemory", "0"});
    CHECK(asked.tidegate.wait() == 0);
    CHECK(asked.counted_in_the_end() == 120);
}

TEST_CASE("costs: a stop waits for a Redis that is away, if a request cost more than it reserved") {
    Asked asked(10);
    asked.network.cut();
    asked.end_requests();
    asked.tidegate.signal(SIGTERM);
    CHECK_FALSE(asked.tidegate.wait(kAWhile));
    asked.network.heal();
    CHECK(asked.tidegate.wait() == 0);
    CHECK(asked.counted_in_the_end() == 120);
}

TEST_CASE("costs: a stop waits for Redis no longer than `drain`, and says what is lost") {
    Asked asked(10, "timeouts: {drain: 600ms}\n");
    asked.network.cut();
    asked.end_requests();
    asked.tidegate.signal(SIGTERM);
    CHECK(asked.tidegate.wait(milliseconds{10'000}) == 0);
    CHECK(asked.tidegate.errors().find("timeouts.drain has ended, and Redis has not counted") !=
          std::string::npos);
}

TEST_CASE("costs: a stop does not wait for a Redis that is away to give units back") {
    Asked asked(700);
    asked.network.cut();
    asked.end_requests();
    asked.tidegate.signal(SIGTERM);
    CHECK(asked.tidegate.wait(milliseconds{10'000}) == 0);
}

}  // namespace tidegate::test::costs_stop_test

// Redis away, stuck, and back: no request waits longer than the deadline, and each has an answer.
#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

namespace tidegate::test::redis_failure_test {

namespace {

constexpr milliseconds kTimeout{100};  // store.redis.timeout's default

std::string settings(std::uint16_t redis_port, const std::string& on_failure,
                     const std::string& url, const std::string& limits) {
    return "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis_port) +
           "\", breaker: {failures: 5, probe_every: 200ms}}}\nreplicas: 1\non_store_failure: " +
           on_failure + "\n" + simple(url, limits);
}

// Waits until a decision is made by `store` again; false if that does not come.
bool decided_by(const Tidegate& tidegate, const std::string& store) {
    const auto deadline = Clock::now() + kPatience;
    std::size_t known = tidegate.access_log(0).size();
    while (Clock::now() < deadline) {
        tidegate.get();
        const auto log = tidegate.access_log(known + 1);
        for (; known < log.size(); ++known) {
            if (log[known].at("store") == store) return true;
        }
        std::this_thread::sleep_for(milliseconds{20});
    }
    return false;
}

double longest_decision_us(const std::vector<nlohmann::json>& log) {
    double longest = 0;
    for (const auto& line : log) longest = std::max(longest, line.at("decision_us").get<double>());
    return longest;
}

double deadline_us() {
    return static_cast<double>(std::chrono::microseconds(kTimeout + slack()).count());
}

int total(const Statuses& statuses) {
    int sum = 0;
    for (const auto& [status, count] : statuses) sum += count;
    return sum;
}

// Load while Redis is killed, started, paused and resumed; then the checks of what must hold.
void survive(const std::string& on_failure) {
    CAPTURE(on_failure);
    const Upstream upstream(ok());
    RedisServer redis;
    const Tidegate tidegate(settings(redis.port(), on_failure, upstream.url(), "1000000/h"));
    Statuses statuses;
    {
        BackgroundLoad load(tidegate.port(), 4);
        const auto pass_time = [] { std::this_thread::sleep_for(milliseconds{600}); };
        pass_time();
        redis.stop();
        pass_time();
        redis.start();
        pass_time();
        redis.pause();
        pass_time();
        redis.resume();
        pass_time();
        statuses = load.stop();
    }
    CHECK(statuses.count(0) == 0);
    CHECK(statuses[200] > 100);
    if (on_failure == "deny") CHECK(statuses[503] > 0);
    CHECK(statuses[200] + statuses[503] == total(statuses));
    if (on_failure != "deny") CHECK(statuses[503] == 0);

    const auto log = tidegate.access_log(static_cast<std::size_t>(total(statuses)));
    CHECK(log.size() == static_cast<std::size_t>(total(statuses)));
    CHECK(longest_decision_us(log) <= deadline_us());
    CHECK(decided_by(tidegate, "redis"));
    CHECK_SOON(tidegate.metric_sum("tidegate_store_failures_total") > 0);
}

}  // namespace

TEST_CASE("redis failure: under load with `local` every request is admitted in time") {
    survive("local");
}

TEST_CASE("redis failure: under load with `allow` every request is admitted in time") {
    survive("allow");
}

TEST_CASE("redis failure: under load with `deny` every request is answered in time") {
    survive("deny");
}

TEST_CASE("redis failure: `deny` is 503, with when to come back, and takes nothing") {
    const Upstream upstream(ok());
    RedisServer redis;
    // One thread: its lines are in order.
    const Tidegate tidegate("threads: 1\n" + settings(redis.port(), "deny", upstream.url(), "5/h"));
    CHECK(tidegate.get().status() == 200);
    redis.stop();
    const auto answer = tidegate.get();
    CHECK(answer.status() == 503);
    CHECK(std::stoi(answer.field("Retry-After")) >= 1);
    CHECK(answer.field("Content-Type") == "application/problem+json");
    CHECK(tidegate.access_log(2).at(1).at("verdict") == "unavailable");
    CHECK(upstream.requests() == 1);
}

TEST_CASE("redis failure: `allow` admits what no store can count") {
    const Upstream upstream(ok());
    RedisServer redis;
    const Tidegate tidegate(settings(redis.port(), "allow", upstream.url(), "2/h"));
    redis.stop();
    for (int i = 0; i < 10; ++i) CHECK(tidegate.get().status() == 200);
}

TEST_CASE("redis failure: `local` admits this proxy's share") {
    const Upstream upstream(ok());
    RedisServer redis;
    const auto yaml = settings(redis.port(), "local", upstream.url(), "11/h");
    const Tidegate tidegate(std::string(yaml).replace(yaml.find("replicas: 1"), 11, "replicas: 2"));
    redis.stop();
    CHECK(hammer({tidegate.port()}, 4, 20) == Statuses{{200, 5}, {429, 15}});
    for (const auto& line : tidegate.access_log(20)) CHECK(line.at("store") == "local");
}

TEST_CASE("redis failure: a policy may have a failure policy of its own") {
    const Upstream upstream(ok());
    RedisServer redis;
    const Tidegate tidegate(
        "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis.port()) +
        "\"}}\nreplicas: 1\non_store_failure: allow\nupstreams: {api: {servers: [" +
        upstream.url() +
        "]}}\npolicies: {soft: {key: [ip], limits: [5/h]}, hard: {key: [ip], limits: [5/h], "
        "on_store_failure: deny}}\nroutes:\n"
        "  - {name: a, match: {path: /soft}, upstream: api, policies: [soft]}\n"
        "  - {name: b, match: {path: /hard}, upstream: api, policies: [hard]}\n"
        "  - {name: c, match: {path: /both}, upstream: api, policies: [soft, hard]}\n");
    redis.stop();
    CHECK(tidegate.get("/soft").status() == 200);
    CHECK(tidegate.get("/hard").status() == 503);
    CHECK(tidegate.get("/both").status() == 503);
}

TEST_CASE("redis failure: once Redis is known to be stuck, requests do not wait for it") {
    const Upstream upstream(ok());
    RedisServer redis;
    const Tidegate tidegate("threads: 1\n" +
                            settings(redis.port(), "allow", upstream.url(), "1000/h"));
    CHECK(tidegate.get().status() == 200);
    redis.pause();
    for (int i = 0; i < 30; ++i) CHECK(tidegate.get().status() == 200);
    const auto log = tidegate.access_log(31);
    CHECK(longest_decision_us(log) <= deadline_us());
    // A probe may fall into any of them, but it is not a request that waits.
    CHECK(longest_decision_us({log.end() - 10, log.end()}) < 50'000);
    CHECK(tidegate.metric_sum("tidegate_store_failures_total", "reason=\"timeout\"") <= 10);
    redis.resume();
    CHECK(decided_by(tidegate, "redis"));
}

TEST_CASE("redis failure: a charge whose answer came too late is never sent again") {
    const Upstream upstream(ok());
    RedisServer redis;
    const Tidegate tidegate("threads: 1\n" +
                            settings(redis.port(), "allow", upstream.url(), "1000/h"));
    CHECK(tidegate.get().field("RateLimit").find(";r=999") != std::string::npos);
    redis.command({"CONFIG", "RESETSTAT"});
    redis.pause();
    for (int i = 0; i < 10; ++i) tidegate.get();
    redis.resume();
    REQUIRE(decided_by(tidegate, "redis"));
    const auto requests = tidegate.access_log(11).size();
    const auto statistics = redis.text({"INFO", "commandstats"});
    const auto found = statistics.find("cmdstat_evalsha:calls=");
    REQUIRE(found != std::string::npos);
    CHECK(std::stoul(statistics.substr(statistics.find('=', found) + 1)) <= requests);
}

TEST_CASE("redis failure: started without Redis it serves its share, and uses Redis later") {
    const Upstream upstream(ok());
    RedisServer redis;
    redis.stop();
    const Tidegate tidegate(settings(redis.port(), "local", upstream.url(), "1000/h"));
    CHECK(tidegate.admin("/readyz").value().status() == 200);
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.access_log(1).at(0).at("store") == "local");
    redis.start();
    CHECK(decided_by(tidegate, "redis"));
}

namespace {

// `replicas: auto`, on a Redis that may be away.
std::string counted_by_redis(std::uint16_t redis_port, const std::string& replicas,
                             const std::string& upstream) {
    return "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis_port) +
           "\", breaker: {failures: 5, probe_every: 100ms}}}\n" + replicas +
           simple(upstream, "12/h");
}

// How many of 20 requests are admitted.
int admitted(const Tidegate& tidegate) {
    auto statuses = hammer({tidegate.port()}, 1, 20);
    CHECK(statuses[200] + statuses[429] == 20);
    return statuses[200];
}

}  // namespace

TEST_CASE("redis failure: started without Redis and without a number of proxies it serves") {
    const Upstream upstream(ok());
    RedisServer redis;
    redis.stop();
    SUBCASE("by the whole quota, with a warning") {
        const Tidegate tidegate(counted_by_redis(redis.port(), "", upstream.url()));
        CHECK(tidegate.admin("/readyz").value().status() == 200);
        CHECK_SOON(tidegate.errors().find("gives this process the whole of each quota meanwhile") !=
                   std::string::npos);
        CHECK(admitted(tidegate) == 12);
        redis.start();
        CHECK(decided_by(tidegate, "redis"));
    }
    SUBCASE("by the number that is assumed") {
        const Tidegate tidegate(
            counted_by_redis(redis.port(), "replicas: {auto: {assume: 4}}\n", upstream.url()));
        CHECK_SOON(tidegate.errors().find("divides each quota by 4 meanwhile") !=
                   std::string::npos);
        CHECK(admitted(tidegate) == 3);
    }
}

TEST_CASE("redis failure: a name that does not resolve and a node that is away end no start") {
    const Upstream upstream(ok());
    for (const char* where : {"url: redis://no-such-host.invalid:6379", "url: unix:///no/such.sock",
                              "url: rediss://127.0.0.1:1",
                              "cluster: [redis://127.0.0.1:1, redis://no-such-host.invalid:1]",
                              "sentinel: {master: m, nodes: [redis://no-such-host.invalid:1]}"}) {
        CAPTURE(where);
        const Tidegate tidegate("store: {redis: {" + std::string(where) + "}}\n" +
                                simple(upstream.url(), "12/h"));
        CHECK(tidegate.admin("/readyz").value().status() == 200);
        CHECK(tidegate.get().status() == 200);
        CHECK_SOON(tidegate.errors().find("; starting without Redis") != std::string::npos);
    }
}

TEST_CASE(
    "redis failure: the number of proxies that Redis counted last is kept for the next start") {
    const Upstream upstream(ok());
    const TemporaryFolder state;
    const Invocation in_state{.environment = {"STATE_DIRECTORY=" + state.path().string()}};
    const auto file = state.path() / "replicas";
    RedisServer redis;
    const std::string yaml = counted_by_redis(redis.port(), "", upstream.url());
    {
        const Tidegate first(yaml, "", in_state);
        const Tidegate second(yaml);
        const Tidegate third(yaml);
        const auto kept = [&] {
            return std::filesystem::exists(file) ? read_file(file) : std::string();
        };
        CHECK_SOON(kept() == "3\n");
    }
    redis.stop();
    {
        const Tidegate tidegate(yaml, "", in_state);
        CHECK_SOON(tidegate.errors().find("divides each quota by 3 meanwhile") !=
                   std::string::npos);
        CHECK(admitted(tidegate) == 4);
    }
    state.write("replicas", "many\n");
    const Tidegate tidegate(yaml, "", in_state);
    CHECK_SOON(tidegate.errors().find("it holds no number from 1 to 1048576") != std::string::npos);
    CHECK(admitted(tidegate) == 12);
}

TEST_CASE("redis failure: it stops in time while Redis does not answer") {
    const Upstream upstream(ok());
    RedisServer redis;
    Tidegate tidegate(settings(redis.port(), "local", upstream.url(), "1000/h"));
    CHECK(tidegate.get().status() == 200);
    redis.pause();
    const auto begin = Clock::now();
    CHECK(tidegate.stop() == 0);
    CHECK(Clock::now() - begin < milliseconds{3000});
    redis.resume();
}

TEST_CASE("redis failure: a Redis whose connections are cut twice a second goes on deciding") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const Tidegate tidegate("threads: 1\n" +
                            settings(redis.port(), "local", upstream.url(), "1000000/h"));
    REQUIRE(decided_by(tidegate, "redis"));
    const std::size_t before = tidegate.access_log(0).size();
    Statuses statuses;
    {
        BackgroundLoad load(tidegate.port(), 4);
        for (int cut = 0; cut < 6; ++cut) {
            std::this_thread::sleep_for(milliseconds{500});
            redis.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
        }
        statuses = load.stop();
    }
    CHECK(statuses[200] == total(statuses));
    const auto log = tidegate.access_log(before + static_cast<std::size_t>(total(statuses)));
    const auto elsewhere = std::count_if(
        log.begin(), log.end(), [](const auto& line) { return line.at("store") != "redis"; });
    MESSAGE(elsewhere << " of " << log.size() << " decisions were made without Redis");
    CHECK(static_cast<std::size_t>(elsewhere) * 20 <= log.size());
}

}  // namespace tidegate::test::redis_failure_test

// The master dies, hangs, is replaced, its sentinels go away: two Tidegates under load notice it,
// answer every request in time and find the new master by themselves.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>
#include <iomanip>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "certificates.hpp"
#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "sentinel_world.hpp"

namespace tidegate::test::redis_sentinel_test {

namespace {

using Lines = std::vector<nlohmann::json>;
using WallClock = std::chrono::system_clock;

constexpr milliseconds kTimeout{100};  // store.redis.timeout's default
constexpr int kQuota = 600;
constexpr int kReplicas = 2;

std::string settings(const std::string& sentinel, const std::string& url, const std::string& limits,
                     const std::string& more = "") {
    return "store: {redis: {sentinel: " + sentinel +
           ", breaker: {failures: 5, probe_every: 200ms}" + more +
           "}}\nreplicas: " + std::to_string(kReplicas) + "\ndeny_cache: off\n" +
           simple(url, limits);
}

// For decisions that must be those of Redis, on a busy machine, too.
const std::string kPatientTimeout = ", timeout: 5s";

// A master without replicas.
SentinelWorldShape alone(std::size_t sentinels = 1) {
    SentinelWorldShape shape;
    shape.replicas = 0;
    shape.sentinels = sentinels;
    return shape;
}

void pass(milliseconds time) {
    std::this_thread::sleep_for(time);
}

// `2026-11-21T13:27:46.778Z`
WallClock::time_point time_of(const nlohmann::json& line) {
    const auto text = line.at("time").get<std::string>();
    std::tm parts{};
    std::istringstream stream(text);
    stream >> std::get_time(&parts, "%Y-%m-%dT%H:%M:%S");
    REQUIRE_FALSE(stream.fail());
    const auto whole = WallClock::from_time_t(::timegm(&parts));
    return whole + milliseconds{std::stoi(text.substr(text.find('.') + 1, 3))};
}

double longest_decision_us(const Lines& log) {
    double longest = 0;
    for (const auto& line : log) longest = std::max(longest, line.at("decision_us").get<double>());
    return longest;
}

double deadline_us() {
    return static_cast<double>(std::chrono::microseconds(kTimeout + slack()).count());
}

int admitted_by(const Lines& log, const std::string& store) {
    return static_cast<int>(std::count_if(log.begin(), log.end(), [&](const auto& line) {
        return line.at("store") == store && line.at("status") == 200;
    }));
}

// The masters that the log of a Tidegate names, oldest first; each move begins where the last one
// led to.
std::vector<std::string> masters_told(const std::string& log) {
    static const std::regex kMove(R"(moved from (\S+) to (\S+))");
    std::vector<std::string> masters;
    for (std::sregex_iterator move(log.begin(), log.end(), kMove), end; move != end; ++move) {
        if (masters.empty()) masters.push_back((*move)[1]);
        CHECK(masters.back() == (*move)[1]);
        masters.push_back((*move)[2]);
    }
    return masters;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

bool all_workers_up(const Tidegate& tidegate) {
    return tidegate.metric_sum("tidegate_store_state", "state=\"up\"") == 2;
}

// When the last decision was made without Redis; the epoch if none was.
WallClock::time_point last_without_redis(const Lines& log) {
    WallClock::time_point last{};
    for (const auto& line : log) {
        if (line.at("store") != "redis") last = std::max(last, time_of(line));
    }
    return last;
}

long milliseconds_between(WallClock::time_point from, WallClock::time_point to) {
    return static_cast<long>(std::chrono::duration_cast<milliseconds>(to - from).count());
}

// Why decisions were made without Redis: `timeout 5, unavailable 120`.
std::string failures(const std::vector<std::unique_ptr<Tidegate>>& gates) {
    std::string text;
    for (const std::string reason : {"timeout", "disconnected", "unavailable", "refused"}) {
        double count = 0;
        for (const auto& gate : gates) {
            count += gate->metric_sum("tidegate_store_failures_total", "reason=\"" + reason + "\"");
        }
        text += (text.empty() ? "" : ", ") + reason + " " + std::to_string(std::lround(count));
    }
    return text;
}

// What must hold of one Tidegate's requests, whatever fault there was.
void check_answers(const Tidegate& tidegate, const Statuses& statuses, const Lines& log) {
    int total = 0;
    for (const auto& [status, count] : statuses) {
        CHECK((status == 200 || status == 429));
        total += count;
    }
    CHECK(total > 100);
    CHECK(log.size() == static_cast<std::size_t>(total));
    CHECK(longest_decision_us(log) <= deadline_us());
    CHECK(admitted_by(log, "local") <= kQuota / kReplicas);
    CHECK(ends_with_redis(log));
    // Each change of state is logged once. On a busy machine the sentinels may give up a second
    // master, but no master comes twice.
    const auto masters = masters_told(tidegate.errors());
    CHECK(masters.size() >= 2);
    CHECK(occurrences(tidegate.errors(), "Redis is down") <= 2 * (masters.size() - 1));
    CHECK(std::set<std::string>(masters.begin(), masters.end()).size() == masters.size());
}

// `fault` ends the master, under load; then the checks of what must hold.
void survive(
    SentinelWorld& world, const std::string& what,
    const std::function<void(std::size_t master)>& fault,
    const std::function<void(std::size_t old)>& afterwards = [](std::size_t) {}) {
    const Upstream upstream(ok());
    const auto yaml = settings(world.yaml(), upstream.url(), std::to_string(kQuota) + "/h");
    const std::vector<std::unique_ptr<Tidegate>> gates = [&] {
        std::vector<std::unique_ptr<Tidegate>> made;
        for (int i = 0; i < kReplicas; ++i) made.push_back(std::make_unique<Tidegate>(yaml));
        return made;
    }();
    const std::size_t old = world.master();
    std::vector<std::unique_ptr<BackgroundLoad>> loads;
    for (const auto& gate : gates) {
        loads.push_back(std::make_unique<BackgroundLoad>(gate->port(), 2));
    }
    // A Tidegate that has not found a master yet cannot log that it moved.
    await("the sentinels to be heard", [&] {
        return std::all_of(gates.begin(), gates.end(), [](const auto& gate) {
            return occurrences(gate->errors(), "reports the master") > 0;
        });
    });
    pass(milliseconds{500});
    const auto fault_at = WallClock::now();
    fault(old);
    const std::size_t next = world.next_master(old, 2);
    const auto decided_at = WallClock::now();
    await("all workers to be back", [&] {
        return std::all_of(gates.begin(), gates.end(),
                           [](const auto& gate) { return all_workers_up(*gate); });
    });
    pass(milliseconds{700});
    afterwards(old);
    const long before = calls(world.server(next), "evalsha");
    pass(milliseconds{300});
    CHECK(calls(world.server(next), "evalsha") > before);

    int admitted = 0;
    WallClock::time_point last{};
    for (std::size_t i = 0; i < gates.size(); ++i) {
        const Statuses statuses = loads[i]->stop();
        int total = 0;
        for (const auto& [status, count] : statuses) total += count;
        const auto log = gates[i]->access_log(static_cast<std::size_t>(total));
        check_answers(*gates[i], statuses, log);
        admitted += admitted_by(log, "redis");
        last = std::max(last, last_without_redis(log));
    }
    // What the old master had counted and not replicated may be admitted once more.
    CHECK(admitted <= 2 * kQuota);
    MESSAGE(what << ": the sentinels had another master after "
                 << milliseconds_between(fault_at, decided_at)
                 << " ms, all decisions were Redis's again "
                 << std::max(0L, milliseconds_between(decided_at, last))
                 << " ms later; admitted by Redis " << admitted << " of a quota of " << kQuota
                 << "; failures: " << failures(gates));
}

}  // namespace

TEST_CASE("redis sentinel: the master is killed under load") {
    SentinelWorld world;
    survive(world, "killed", [&](std::size_t master) { world.server(master).stop(); });
}

TEST_CASE("redis sentinel: the master hangs under load, and wakes up as one that is none") {
    SentinelWorld world;
    survive(
        world, "paused", [&](std::size_t master) { world.server(master).pause(); },
        [&](std::size_t old) {
            world.server(old).resume();
            // It takes itself for the master until a sentinel corrects it; no proxy uses it.
            const long before = calls(world.server(old), "evalsha");
            pass(milliseconds{500});
            CHECK(calls(world.server(old), "evalsha") == before);
        });
}

TEST_CASE("redis sentinel: a failover by hand is followed; the old master serves no request") {
    SentinelWorld world;
    survive(
        world, "failed over by hand",
        [&](std::size_t) {
            REQUIRE(world.sentinel(0).text({"SENTINEL", "FAILOVER", SentinelWorld::kMaster}) ==
                    "OK");
        },
        [&](std::size_t old) {
            world.await_replica(old);
            CHECK(world.server(old).text({"SET", "x", "1"}).starts_with("READONLY"));
        });
}

TEST_CASE("redis sentinel: a master made a replica without a message serves no request") {
    SentinelWorld world(alone());
    RedisServer other;
    const Upstream upstream(ok());
    const Tidegate tidegate(settings(world.yaml(), upstream.url(), "1000000/h"));
    BackgroundLoad load(tidegate.port(), 2);
    pass(milliseconds{300});
    // Connections stay, and no sentinel announces anything.
    REQUIRE(world.server(0).text({"REPLICAOF", "127.0.0.1", std::to_string(other.port())}) == "OK");
    await("all workers to leave it",
          [&] { return tidegate.metric_sum("tidegate_store_state", "state=\"down\"") == 2; });
    CHECK_SOON(tidegate.errors().find("its role is `slave`") != std::string::npos);
    const long before = calls(world.server(0), "evalsha");
    pass(milliseconds{300});
    CHECK(calls(world.server(0), "evalsha") == before);
    REQUIRE(world.server(0).text({"REPLICAOF", "NO", "ONE"}) == "OK");
    await("all workers to be back", [&] { return all_workers_up(tidegate); });
    pass(milliseconds{200});
    const auto statuses = load.stop();
    CHECK(statuses.size() == 1);
    REQUIRE(statuses.count(200) == 1);
    const auto log = tidegate.access_log(static_cast<std::size_t>(statuses.at(200)));
    CHECK(longest_decision_us(log) <= deadline_us());
    CHECK(ends_with_redis(log));
    CHECK_SOON(tidegate.metric_sum("tidegate_store_failures_total", "reason=\"refused\"") >= 1);
}

TEST_CASE("redis sentinel: with one sentinel gone, the master is killed under load") {
    SentinelWorld world;
    survive(world, "killed, with a sentinel", [&](std::size_t master) {
        world.sentinel(0).stop();
        world.server(master).stop();
    });
}

TEST_CASE("redis sentinel: without sentinels, a master that is well goes on deciding") {
    SentinelWorld world;
    const Upstream upstream(ok());
    const Tidegate tidegate(settings(world.yaml(), upstream.url(), "1000000/h", kPatientTimeout));
    BackgroundLoad load(tidegate.port(), 2);
    pass(milliseconds{300});
    for (std::size_t i = 0; i < world.sentinel_count(); ++i) world.sentinel(i).stop();
    pass(milliseconds{3'000});
    const auto statuses = load.stop();
    CHECK(statuses.size() == 1);
    CHECK(statuses.count(200) == 1);
    const auto log = tidegate.access_log(static_cast<std::size_t>(statuses.at(200)));
    for (const auto& line : log) {
        if (line.at("store") != "redis") FAIL_CHECK("a decision without Redis");
    }
    CHECK(occurrences(tidegate.errors(), "no sentinel can be watched") == 1);
    CHECK(tidegate.errors().find("Redis is down") == std::string::npos);
}

TEST_CASE("redis sentinel: started without sentinels it serves its share, and finds them later") {
    SentinelWorld world(alone());
    world.sentinel(0).stop();
    const Upstream upstream(ok());
    const Tidegate tidegate(settings(world.yaml(), upstream.url(), "1000/h"));
    CHECK_SOON(tidegate.errors().find("; starting without Redis") != std::string::npos);
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.access_log(1).at(0).at("store") == "local");
    world.sentinel(0).start();
    await("Redis", [&] { return all_workers_up(tidegate); });
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.access_log(2).back().at("store") == "redis");
}

TEST_CASE("redis sentinel: a sentinel that cannot be used is logged at the start") {
    SentinelWorld world(alone(2));
    world.sentinel(1).stop();
    const Upstream upstream(ok());
    const Tidegate tidegate(settings(world.yaml(), upstream.url(), "1000/h", kPatientTimeout));
    const std::string line =
        "the sentinel 127.0.0.1:" + std::to_string(world.sentinel(1).port()) + " cannot be used: ";
    await("a word of it", [&] { return tidegate.errors().find(line) != std::string::npos; });
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.access_log(1).at(0).at("store") == "redis");
}

TEST_CASE("redis sentinel: with a wrong name it is not ready, and the error has the right one") {
    SentinelWorld world(alone());
    auto sentinel = world.yaml();
    sentinel.replace(sentinel.find("mymaster"), 8, "mymastr");
    CHECK(refusal_by_store(settings(sentinel, "http://127.0.0.1:1", "10/h"))
              .find("it knows no master `mymastr`: it watches `mymaster`") != std::string::npos);
}

TEST_CASE("redis sentinel: servers and sentinels have passwords of their own") {
    SentinelWorld world(
        {.replicas = 1, .sentinels = 1, .password = "of-redis", .sentinel_password = "of-them"});
    const Upstream upstream(ok());
    const std::string of_redis = ", password: of-redis";
    SUBCASE("both are right; they are followed") {
        const Tidegate tidegate(settings(world.yaml(", password: of-them"), upstream.url(),
                                         "1000/h", of_redis + ", database: 3" + kPatientTimeout));
        CHECK(tidegate.get().status() == 200);
        CHECK(tidegate.access_log(1).at(0).at("store") == "redis");
        world.server(0).stop();
        world.next_master(0);
        await("Redis", [&] {
            tidegate.get();
            return tidegate.access_log(1).back().at("store") == "redis";
        });
    }
    SUBCASE("that of the sentinels is missing") {
        const auto said =
            refusal_by_store(settings(world.yaml(), upstream.url(), "1000/h", of_redis));
        CHECK(said.find("NOAUTH") != std::string::npos);
    }
    SUBCASE("that of the sentinels is wrong, and is not told") {
        const auto said = refusal_by_store(
            settings(world.yaml(", password: something"), upstream.url(), "1000/h", of_redis));
        CHECK(said.find("the password: `WRONGPASS") != std::string::npos);
        CHECK(said.find("something") == std::string::npos);
    }
    SUBCASE("that of Redis is missing") {
        const auto said =
            refusal_by_store(settings(world.yaml(", password: of-them"), upstream.url(), "1000/h"));
        CHECK(said.find("it wants a password") != std::string::npos);
    }
}

TEST_CASE("redis sentinel: sentinels may be encrypted, and are held to their certificates") {
    const TemporaryFolder folder;
    const Authority authority;
    const Certificate own = authority.issue();
    const std::uint16_t tls_port = free_port();
    RedisServer redis;
    RedisServer sentinel({"--tls-port", std::to_string(tls_port), "--tls-cert-file",
                          folder.write("own.pem", own.pem()), "--tls-key-file",
                          folder.write("own.key", own.key_pem()), "--tls-ca-cert-file",
                          folder.write("ca.pem", authority.pem()), "--tls-auth-clients", "no"},
                         true);
    REQUIRE(sentinel.text({"SENTINEL", "MONITOR", "mymaster", "127.0.0.1",
                           std::to_string(redis.port()), "1"}) == "OK");
    const Upstream upstream(ok());
    const auto believing = [&](const std::string& file) {
        return settings(
            "{master: mymaster, nodes: [\"rediss://localhost:" + std::to_string(tls_port) +
                "\"], tls: {ca: \"" + (folder.path() / file).string() + "\"}}",
            upstream.url(), "1000/h", kPatientTimeout);
    };
    SUBCASE("the authority is known") {
        const Tidegate tidegate(believing("ca.pem"));
        CHECK(tidegate.get().status() == 200);
        CHECK(tidegate.access_log(1).at(0).at("store") == "redis");
    }
    SUBCASE("another authority is believed") {
        folder.write("other.pem", Authority().pem());
        const auto said = refusal_by_store(believing("other.pem"));
        CHECK_MESSAGE(said.find("certificate") != std::string::npos, said);
    }
}

}  // namespace tidegate::test::redis_sentinel_test

// Leases through the program: proxies that admit from batches, and one Redis that counts.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cluster_world.hpp"
#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::lease_test {

namespace {

using Admissions = std::vector<Admitted>;

// What each proxy of a test has.
std::string proxy(const CountedIn& counted, const Upstream& upstream, const std::string& limit,
                  const std::string& lease = "{slack: 20%}", const std::string& more = "") {
    return "threads: 4\nreplicas: 2\n" + counted.yaml() + more +
           one_policy(upstream,
                      "{key: [\"constant:all\"], limits: [" + limit + "], lease: " + lease + "}");
}

Finished asked(const Tidegate& tidegate, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(),
                     {"--admin", "127.0.0.1:" + std::to_string(tidegate.admin_port())});
    return run_tidegate(arguments);
}

// What Redis counts of the one limit of `policy` for everybody.
std::int64_t counted_by_redis(const Tidegate& tidegate, const std::string& policy = "p") {
    const Finished finished = asked(tidegate, {"inspect", "constant:all", "--json"});
    REQUIRE(finished.code <= 1);
    const auto found = nlohmann::json::parse(finished.output);
    for (const auto& one : found.at("identifiers").at(0).at("policies")) {
        if (one.at("policy") == policy) return one.at("limits").at(0).at("counted");
    }
    return 0;
}

double units(const Tidegate& tidegate, const std::string& which) {
    return tidegate.metric("tidegate_lease_units_total{units=\"" + which + "\"}");
}

double leased_decisions(const Tidegate& tidegate) {
    return tidegate.metric("tidegate_decision_seconds_count{store=\"lease\"}");
}

// How many requests of 16 connections pass in `time`, about 200 a second on each: leases begin when
// a key was met for a second.
int flood(const std::vector<std::uint16_t>& ports, milliseconds time) {
    std::atomic<int> admitted{0};
    std::atomic<int> others{0};
    std::vector<std::thread> threads;
    const auto end = Clock::now() + time;
    for (std::size_t i = 0; i < 16; ++i) {
        threads.emplace_back([&, port = ports[i % ports.size()]] {
            RawClient client(port);
            while (Clock::now() < end) {
                const int status = client.get("/").status();
                admitted += status == 200 ? 1 : 0;
                others += status == 200 || status == 429 ? 0 : 1;
                std::this_thread::sleep_for(milliseconds{5});
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(others == 0);
    return admitted;
}

// No half-open interval of `window` held more than `quota`.
bool keeps(const Admissions& admitted, std::size_t quota, milliseconds window) {
    for (std::size_t i = quota; i < admitted.size(); ++i) {
        auto last = Clock::time_point::min();
        for (std::size_t k = i - quota; k <= i; ++k) last = std::max(last, admitted[k].answered);
        if (last - admitted[i - quota].sent + milliseconds{2} < window) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("lease: two proxies of four threads admit the quota of a long window, to the last unit") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    std::string limit;
    SUBCASE("sliding") {
        limit = "{quota: 7000, per: 1day}";
    }
    SUBCASE("fixed") {
        limit = "{quota: 7000, per: 1day, algorithm: fixed_window}";
    }
    SUBCASE("opened by its first request") {
        limit = "{quota: 7000, per: 1h, algorithm: fixed_window, anchor: first_request}";
    }
    SUBCASE("of the calendar") {
        limit = "{quota: 7000, algorithm: fixed_window, anchor: month, time_zone: Europe/Berlin}";
    }
    const std::string yaml = proxy(counted, upstream, limit);
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    int admitted = 0;
    // Denials are remembered for some seconds, also where another proxy gives units back.
    const auto deadline = Clock::now() + kPatience;
    while (admitted < 7'000 && Clock::now() < deadline) {
        admitted += flood({first.port(), second.port()}, milliseconds{1'000});
    }
    CHECK(admitted == 7'000);
    CHECK(flood({first.port(), second.port()}, milliseconds{200}) == 0);
    CHECK(counted_by_redis(first) == 7'000);
    const double leased = leased_decisions(first) + leased_decisions(second);
    CHECK(leased > 400);
    CHECK_SOON(units(first, "taken") - units(first, "given_back") + units(second, "taken") -
                   units(second, "given_back") ==
               leased);
}

TEST_CASE("lease: no short window admits more than its quota, and nearly all of it is used") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    Admissions admitted;
    const auto run = [&](const std::string& limit) {
        const std::string yaml = proxy(counted, upstream, limit);
        const Tidegate first(yaml);
        const Tidegate second(yaml);
        admitted = admitted_in({first.port(), second.port()}, 16, "/", milliseconds{3'500});
        CHECK(leased_decisions(first) + leased_decisions(second) > 50);
    };
    SUBCASE("sliding") {
        run("{quota: 400, per: 1s, precision: 200ms}");
        CHECK(keeps(admitted, 400, milliseconds{800}));
        CHECK(admitted.size() > 3 * 400 * 8 / 10);
    }
    SUBCASE("strict") {
        run("{quota: 400, per: 1s, precision: 200ms, strict: on}");
        CHECK(keeps(admitted, 400, milliseconds{1'000}));
        CHECK(admitted.size() > 2 * 400);
    }
    SUBCASE("fixed") {
        run("{quota: 400, per: 1s, algorithm: fixed_window}");
        std::map<std::int64_t, int> seconds;
        const auto offset =
            std::chrono::system_clock::now().time_since_epoch() - Clock::now().time_since_epoch();
        for (const auto& one : admitted) {
            const auto second = [&](Clock::time_point at) {
                return std::chrono::floor<std::chrono::seconds>(at.time_since_epoch() + offset)
                    .count();
            };
            const auto sent = second(one.sent - milliseconds{2});
            if (sent == second(one.answered + milliseconds{2})) ++seconds[sent];
        }
        for (const auto& [second, count] : seconds) CHECK(count <= 400);
        CHECK(admitted.size() > 3 * 400 * 8 / 10);
    }
}

// Two proxies of four threads begin with nothing counted, and get more than the quota.
TEST_CASE(
    "lease: a burst gets 99 % of the quota of a second at a slack of 1 %, and no more than all") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const std::size_t quota = 1'600;  // each thread may hold two units
    const std::string yaml =
        proxy(counted, upstream, "{quota: " + std::to_string(quota) + ", per: 1s}", "auto");
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    const auto denied = [&] {
        const std::string labels = "outcome=\"denied\"";
        return first.metric_sum("tidegate_decisions_total", labels) +
               second.metric_sum("tidegate_decisions_total", labels);
    };
    std::size_t used = 0;
    const auto deadline = Clock::now() + kPatience;
    // On a busy machine a burst may be too slow to fill a window.
    while (used < quota * 99 / 100 && Clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds{1'100});
        const double denied_before = denied();
        const Admissions admitted =
            admitted_in({first.port(), second.port()}, 16, "/", milliseconds{1'500});
        CHECK(keeps(admitted, quota, milliseconds{980}));
        if (admitted.empty() || denied() == denied_before) continue;
        const auto ends = admitted.front().sent + milliseconds{1'000};
        const auto in_window = std::count_if(admitted.begin(), admitted.end(),
                                             [&](const Admitted& one) { return one.sent < ends; });
        used = static_cast<std::size_t>(in_window);
    }
    CHECK(used >= quota * 99 / 100);
    CHECK(leased_decisions(first) + leased_decisions(second) > 0);
}

TEST_CASE("lease: what another limit of the request denies is not taken of the lease") {
    std::string store;
    std::unique_ptr<RedisServer> redis;
    std::unique_ptr<ClusterWorld> cluster;
    SUBCASE("one Redis") {
        CountedIn counted = counted_in_redis();
        store = counted.yaml();
        redis = std::move(counted.redis);
    }
    // Without the lease each request is in two slots.
    SUBCASE("a cluster") {
        cluster = std::make_unique<ClusterWorld>(ClusterWorld::Options{.masters = 3});
        store = "store: {redis: {cluster: " + cluster->urls() + ", timeout: 5s}}\n";
    }
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\nreplicas: 1\n" + store +
        api(upstream,
            "policies:\n"
            "  everybody: {key: [\"constant:all\"], limits: [10000/h], lease: auto}\n"
            "  each: {key: [\"query:k\"], limits: [120/h]}\n"
            "routes: [{name: all, policies: [everybody, each]}]\n"));
    int admitted = 0;
    auto client = tidegate.client();
    const auto end = Clock::now() + milliseconds{3'000};
    for (int i = 0; i < 7 * 130 || Clock::now() < end; ++i) {
        const auto answer = client.get("/?k=" + std::to_string(i % 7));
        CHECK((answer.status() == 200 || answer.status() == 429));
        admitted += answer.status() == 200 ? 1 : 0;
        std::this_thread::sleep_for(milliseconds{1});
    }
    CHECK(admitted == 7 * 120);
    CHECK(units(tidegate, "taken") > 0);
    CHECK_SOON(counted_by_redis(tidegate, "everybody") == admitted);
}

TEST_CASE("lease: the fields and the log say what was decided from a batch") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\nreplicas: 1\n" + counted.yaml() +
                            one_policy(upstream,
                                       "{key: [\"constant:all\"], limits: [100000/h], "
                                       "lease: {slack: 5%}}"));
    auto client = tidegate.client();
    int asked = 0;
    await("a request is admitted from a batch", [&] {
        ++asked;
        client.get("/");
        return leased_decisions(tidegate) > 0;
    });
    const auto before = client.get("/before").field("RateLimit");
    const auto after = client.get("/after").field("RateLimit");
    REQUIRE(before.starts_with("\"p-1h\";r="));
    const auto left = [](const std::string& field) { return std::stoi(field.substr(9)); };
    CHECK(left(before) <= 100'000 - asked);
    CHECK(left(after) < left(before));
    CHECK(logged(tidegate, "/after").at("verdict") == "admitted");
    const std::string store = logged(tidegate, "/after").at("store");
    CHECK((store == "lease" || store == "redis"));
    const auto log = tidegate.access_log(static_cast<std::size_t>(asked) + 2);
    CHECK(std::count_if(log.begin(), log.end(),
                        [](const auto& line) { return line.at("store") == "lease"; }) > 0);
}

TEST_CASE("lease: a key that few requests share takes no batch") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\nreplicas: 1\n" + counted.yaml() +
        one_policy(upstream, "{key: [\"query:k\"], limits: [1000/min], lease: auto}"));
    const long before = calls(*counted.redis, "evalsha");
    auto client = tidegate.client();
    for (int i = 0; i < 300; ++i) CHECK(client.get("/?k=" + std::to_string(i)).status() == 200);
    CHECK(calls(*counted.redis, "evalsha") - before == 300);
    CHECK(tidegate.metric_sum("tidegate_lease_batches_total") == 0);
}

TEST_CASE("lease: no batch while the number of proxies is not known, and batches once it is") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    REQUIRE(counted.redis->text({"ACL", "SETUSER", "default", "-zcard"}) == "OK");
    std::string number;
    SUBCASE("nothing written") {
        number = "";
    }
    SUBCASE("assumed") {
        number = "replicas: {auto: {assume: 2}}\n";
    }
    SUBCASE("written") {
        number = "replicas: 2\n";
    }
    const Tidegate tidegate(
        "threads: 1\n" + number + counted.yaml() +
        one_policy(upstream,
                   "{key: [\"constant:all\"], limits: [1000000/h], lease: {slack: 20%}}"));
    flood({tidegate.port()}, milliseconds{2'500});
    if (number == "replicas: 2\n") {
        CHECK(leased_decisions(tidegate) > 0);
        return;
    }
    CHECK(units(tidegate, "taken") == 0);
    CHECK(leased_decisions(tidegate) == 0);
    REQUIRE(counted.redis->text({"ACL", "SETUSER", "default", "+zcard"}) == "OK");
    const auto deadline = Clock::now() + kPatience;
    while (leased_decisions(tidegate) == 0 && Clock::now() < deadline) {
        flood({tidegate.port()}, milliseconds{500});
    }
    CHECK(leased_decisions(tidegate) > 0);
}

TEST_CASE("lease: a reload, a reset and a drain give back what is left, and count nothing twice") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const auto yaml = [&](const std::string& quota) {
        return proxy(counted, upstream, "{quota: " + quota + ", per: 1day}");
    };
    const Tidegate other(yaml("100000"));
    Tidegate tidegate(yaml("100000"));
    int admitted = flood({tidegate.port()}, milliseconds{1'500});
    CHECK(leased_decisions(tidegate) > 0);
    SUBCASE("reload") {
        tidegate.write_configuration(yaml("90000"));
        CHECK(tidegate.reload().status() == 200);
        CHECK_SOON(counted_by_redis(other) == admitted);
    }
    SUBCASE("drain") {
        CHECK(tidegate.stop() == 0);
        CHECK_SOON(counted_by_redis(other) == admitted);
    }
    SUBCASE("reset") {
        CHECK(asked(tidegate, {"reset", "constant:all"}).code == 0);
        CHECK(counted_by_redis(other) == 0);
        admitted = flood({tidegate.port()}, milliseconds{1'500});
        CHECK_SOON(counted_by_redis(other) == admitted);
    }
    SUBCASE("a pause") {
        CHECK_SOON(counted_by_redis(other) == admitted);
    }
}

TEST_CASE("lease: a reload and a drain give back what of a brief window was left to expire") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const auto yaml = [&](const std::string& quota) {
        return proxy(counted, upstream, "{quota: " + quota + ", per: 10s}");
    };
    const Tidegate other(yaml("100000"));
    Tidegate tidegate(yaml("100000"));
    const int admitted = flood({tidegate.port()}, milliseconds{1'500});
    CHECK(leased_decisions(tidegate) > 0);
    // Its batches have ended, and Redis counts what is left of them.
    CHECK_SOON(tidegate.metric("tidegate_lease_held_units") == 0);
    CHECK(counted_by_redis(other) > admitted);
    SUBCASE("reload") {
        tidegate.write_configuration(yaml("90000"));
        CHECK(tidegate.reload().status() == 200);
    }
    SUBCASE("drain") {
        CHECK(tidegate.stop() == 0);
    }
    CHECK_SOON(counted_by_redis(other) == admitted);
}

TEST_CASE("lease: Redis killed, paused and flushed under load: every request has its answer") {
    CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 2\nreplicas: 1\non_store_failure: allow\n"
        "store: {redis: {url: \"redis://127.0.0.1:" +
        std::to_string(counted.redis->port()) + "\", breaker: {probe_every: 200ms}}}\n" +
        one_policy(upstream, "{key: [\"constant:all\"], limits: [1000000/h], lease: auto}"));
    Statuses statuses;
    {
        BackgroundLoad load(tidegate.port(), 6);
        const auto pass_time = [] { std::this_thread::sleep_for(milliseconds{900}); };
        pass_time();
        counted.redis->stop();
        pass_time();
        counted.redis->start();
        pass_time();
        counted.redis->pause();
        pass_time();
        counted.redis->resume();
        pass_time();
        counted.redis->command({"FLUSHALL"});
        pass_time();
        statuses = load.stop();
    }
    CHECK(statuses.size() == 1);
    CHECK(statuses[200] > 100);
    CHECK(leased_decisions(tidegate) > 0);
    CHECK_SOON(tidegate.metric("tidegate_lease_held_units") == 0);
}

}  // namespace tidegate::test::lease_test

// What saves commands to Redis: denials that are remembered, and equal requests that share a
// command.
#include <signal.h>

#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::deny_cache_test {

namespace {

const std::string kHits = "tidegate_deny_cache_hits_total";

std::string counted_by_query(const Upstream& upstream, const std::string& limits) {
    return one_policy(upstream, "{key: [\"query:k\"], limits: [" + limits + "]}");
}

// How often charges were sent to Redis while `act` ran.
template <class Act>
long sent_during(const RedisServer& redis, Act act) {
    const long before = calls(redis, "evalsha");
    act();
    return calls(redis, "evalsha") - before;
}

// Returns when the program has stopped: a signal takes its time, and what arrives meanwhile is
// answered.
void stop(const Tidegate& tidegate) {
    tidegate.signal(SIGSTOP);
    await("the program stops", [&] {
        const std::string stat = read_file("/proc/" + std::to_string(tidegate.pid()) + "/stat");
        const std::size_t name_end = stat.rfind(')');
        return name_end + 2 < stat.size() && stat[name_end + 2] == 'T';
    });
}

}  // namespace

TEST_CASE(
    "deny cache: repeating a denied request costs Redis nothing; other keys are not affected") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\n" + counted.yaml() +
                            counted_by_query(upstream, "{name: two, quota: 2, per: 1h}"));
    for (int i = 0; i < 2; ++i) CHECK(tidegate.get("/?k=a").status() == 200);
    const auto first = tidegate.get("/asked?k=a");
    CHECK(first.status() == 429);
    CHECK(sent_during(*counted.redis, [&] {
              auto client = tidegate.client();
              for (int i = 0; i < 1000; ++i) CHECK(client.get("/?k=a").status() == 429);
          }) == 0);
    CHECK_SOON(tidegate.metric(kHits) == 1000);
    const auto recalled = tidegate.get("/recalled?k=a");
    CHECK(recalled.status() == 429);
    CHECK(recalled.field("RateLimit-Policy") == first.field("RateLimit-Policy"));
    CHECK(recalled.field("RateLimit").starts_with("\"p-two\";r=0;t="));
    CHECK(std::stoi(recalled.field("Retry-After")) <= std::stoi(first.field("Retry-After")));
    CHECK(std::stoi(recalled.field("Retry-After")) >= std::stoi(first.field("Retry-After")) - 60);

    CHECK(logged(tidegate, "/asked").at("store") == "redis");
    const auto line = logged(tidegate, "/recalled");
    CHECK(line.at("store") == "remembered");
    CHECK(line.at("verdict") == "limited");
    CHECK(line.at("limited_by") == "p-two");
    CHECK_SOON(decisions(tidegate, "denied") == 1002);

    CHECK(sent_during(*counted.redis, [&] { CHECK(tidegate.get("/?k=b").status() == 200); }) == 1);
}

TEST_CASE("deny cache: a policy in shadow does not turn it off, and counts what it said before") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\n" + counted.yaml() +
        api(upstream,
            "policies:\n"
            "  p: {key: [\"query:k\"], limits: [2/h]}\n"
            "  full: {key: [\"query:k\"], limits: [1/h], mode: shadow}\n"
            "  wide: {key: [\"query:k\"], limits: [{quota: 9, per: 1h, count: all}], "
            "mode: shadow}\n"
            "routes: [{name: all, policies: [p, full, wide]}]\n"));
    for (int i = 0; i < 2; ++i) CHECK(tidegate.get("/?k=a").status() == 200);
    CHECK(tidegate.get("/?k=a").status() == 429);
    CHECK(sent_during(*counted.redis, [&] {
              for (int i = 0; i < 53; ++i) CHECK(tidegate.get("/?k=a").status() == 429);
          }) == 0);
    CHECK_SOON(tidegate.metric(kHits) == 53);
    CHECK_SOON(decisions(tidegate, "denied") == 54);
    // The second request was one over it, and so is each that was refused.
    CHECK_SOON(decisions(tidegate, "shadow_denied", "full") == 55);
    CHECK_SOON(decisions(tidegate, "shadow_admitted", "wide") == 56);
    CHECK(tidegate.get("/recalled?k=a").status() == 429);
    const auto recalled = logged(tidegate, "/recalled");
    CHECK(recalled.at("store") == "remembered");
    CHECK(recalled.at("limited_by") == "p-1h");
    CHECK(recalled.at("shadow_limited_by") == "full-1h");
}

TEST_CASE("deny cache: each thread asks Redis once, then remembers the denial") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 2\n" + counted.yaml() + counted_by_query(upstream, "1/h"));
    CHECK(tidegate.get("/?k=a").status() == 200);
    CHECK(sent_during(*counted.redis, [&] {
              for (int i = 0; i < 100; ++i) CHECK(tidegate.get("/?k=a").status() == 429);
          }) <= 2);
    CHECK_SOON(tidegate.metric(kHits) >= 98);
}

TEST_CASE("deny cache: a denial ends at the time that it named, not before and not later") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\n" + counted.yaml() +
                            one_policy(upstream,
                                       "{key: [ip], limits: [{quota: 1, per: 700ms, "
                                       "algorithm: sliding_log}]}"));
    const auto admitted = admitted_in({tidegate.port()}, 1, "/", milliseconds{3000});
    REQUIRE(admitted.size() >= 4);
    CHECK(admitted.size() <= 5);
    std::size_t in_time = 0;
    for (std::size_t i = 1; i < admitted.size(); ++i) {
        CHECK(admitted[i].answered - admitted[i - 1].sent >= milliseconds{698});
        const auto later = admitted[i].sent - admitted[i - 1].answered;
        CHECK(later <= milliseconds{700} + slack());
        in_time += later <= milliseconds{700} + slack() / 5 ? 1 : 0;
    }
    CHECK(in_time >= admitted.size() / 2);
    // The proxy itself answered nearly all: Redis saw a denial for each admission, and few more, as
    // the named time is rounded up.
    CHECK_SOON(tidegate.metric(kHits) > 100);
    CHECK(calls(*counted.redis, "evalsha") < 40);
}

TEST_CASE("deny cache: a higher cost is denied too; for a lower cost the proxy asks Redis") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\n" + counted.yaml() +
        api(upstream,
            "policies: {p: {key: [ip], limits: [10/h]}}\n"
            "routes: [{name: all, upstream: api, policies: [p], cost: {header: x-cost, "
            "from: anyone, max: 10}}]\n"));
    const auto ask = [&](int cost) {
        return tidegate.get("/", "X-Cost: " + std::to_string(cost) + "\r\n").status();
    };
    CHECK(ask(6) == 200);
    CHECK(ask(5) == 429);
    CHECK(sent_during(*counted.redis, [&] {
              CHECK(ask(5) == 429);
              CHECK(ask(7) == 429);
          }) == 0);
    CHECK(sent_during(*counted.redis, [&] { CHECK(ask(4) == 200); }) == 1);
}

TEST_CASE(
    "deny cache: a denial that others may end, or that counts by itself, is never remembered") {
    const CountedIn counted = counted_in_redis();
    GatedUpstream upstream;
    upstream.open();
    const std::string limits[] = {
        "{name: l, quota: 1, per: 1h, count: all}",
        "{name: l, quota: 1, per: 1h, count: [200]}",
        "{name: l, quota: 1, per: 1h, algorithm: leaky_bucket, max_delay: 0s}",
    };
    for (const std::string& limit : limits) {
        CAPTURE(limit);
        const Tidegate tidegate(
            counted.yaml() +
            one_policy(upstream.upstream(), "{key: [ip], limits: [" + limit + "]}"));
        CHECK(tidegate.get().status() == 200);
        CHECK(sent_during(*counted.redis, [&] {
                  for (int i = 0; i < 10; ++i) CHECK(tidegate.get().status() == 429);
              }) == 10);
        CHECK(tidegate.metric(kHits) == 0);
        CHECK(logged(tidegate, "/").at("store") == "redis");
        counted.redis->command({"FLUSHALL"});
    }
}

TEST_CASE(
    "deny cache: a denial is remembered for max_ttl at most, so that a reset elsewhere counts") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate("deny_cache: {max_ttl: 300ms}\n" + counted.yaml() +
                            counted_by_query(upstream, "1/h"));
    CHECK(tidegate.get("/?k=a").status() == 200);
    CHECK(tidegate.get("/?k=a").status() == 429);
    const auto flushed = Clock::now();
    counted.redis->command({"FLUSHALL"});
    await("the flush to be noticed", [&] { return tidegate.get("/?k=a").status() == 200; });
    CHECK(Clock::now() - flushed < milliseconds{300} + slack());
}

TEST_CASE("deny cache: a reload forgets what was remembered, on all threads") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const std::string yaml = "threads: 2\n" + counted.yaml() + counted_by_query(upstream, "1/h");
    const Tidegate tidegate(yaml);
    CHECK(tidegate.get("/?k=a").status() == 200);
    for (int i = 0; i < 50; ++i) CHECK(tidegate.get("/?k=a").status() == 429);
    CHECK_SOON(tidegate.metric(kHits) >= 48);
    counted.redis->command({"FLUSHALL"});
    CHECK(tidegate.reload().status() == 200);
    CHECK(tidegate.get("/?k=a").status() == 200);
}

TEST_CASE("deny cache: when it is off, every request goes to Redis") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate("deny_cache: off\n" + counted.yaml() +
                            counted_by_query(upstream, "1/h"));
    CHECK(tidegate.get("/?k=a").status() == 200);
    CHECK(sent_during(*counted.redis, [&] {
              for (int i = 0; i < 20; ++i) CHECK(tidegate.get("/?k=a").status() == 429);
          }) == 20);
    CHECK(tidegate.metric(kHits) == 0);
}

TEST_CASE("deny cache: with and without it the same requests get the same answers") {
    const Upstream upstream(ok());
    std::vector<std::vector<int>> statuses;
    for (const std::string setting : {"deny_cache: off\n", "deny_cache: {entries: 4}\n"}) {
        const CountedIn counted = counted_in_redis();
        const Tidegate tidegate(
            setting + counted.yaml() +
            api(upstream,
                "policies: {p: {key: [\"query:k\", \"query:j\"], limits: [{quota: 20, per: 1h}, "
                "{quota: 30, per: 1h, algorithm: gcra, burst: 15}]}}\n"
                "routes: [{name: all, upstream: api, policies: [p], cost: {header: x-cost, "
                "from: anyone, max: 15}}]\n"));
        auto& seen = statuses.emplace_back();
        auto client = tidegate.client();
        unsigned random = 7;
        const auto next = [&](unsigned below) {
            random = random * 1'664'525 + 1'013'904'223;
            return (random >> 16) % below;
        };
        for (int i = 0; i < 400; ++i) {
            const auto path = "/?k=" + std::to_string(next(6)) + "&j=" + std::to_string(next(6));
            const auto cost = std::to_string(1 + next(6));
            seen.push_back(client.get(path, "X-Cost: " + cost + "\r\n").status());
        }
        CHECK_SOON((tidegate.metric(kHits) > 0) == (setting != "deny_cache: off\n"));
    }
    CHECK(statuses[0] == statuses[1]);
}

TEST_CASE("batching: equal requests at one time share commands, and exactly the quota passes") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\ndeny_cache: off\n" + counted.yaml() +
                            counted_by_query(upstream, "{quota: 20, per: 1h}"));
    CHECK(tidegate.get("/?k=warm").status() == 200);
    std::vector<RawClient> clients;
    for (int i = 0; i < 64; ++i) clients.push_back(tidegate.client());
    for (auto& client : clients)
        CHECK(client.get("/?k=" + std::to_string(&client - clients.data())).status() == 200);
    // While the program is stopped all of them arrive: then they are of one turn of its loop.
    const long sent = sent_during(*counted.redis, [&] {
        stop(tidegate);
        for (auto& client : clients) client.send(get_request("/?k=same"));
        tidegate.signal(SIGCONT);
        Statuses statuses;
        for (auto& client : clients) ++statuses[client.response().status()];
        CHECK(statuses == Statuses{{200, 20}, {429, 44}});
    });
    CHECK(sent >= 1);
    CHECK(sent <= 8);
    CHECK_SOON(decisions(tidegate, "denied") == 44);
    CHECK_SOON(decisions(tidegate, "admitted") == 20 + 65);
}

TEST_CASE("batching: threads share commands, and exactly the quota of each client passes") {
    constexpr int kClients = 48;
    constexpr int kRounds = 12;
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 8\ndeny_cache: off\n" + counted.yaml() +
                            counted_by_query(upstream, "{quota: 20, per: 1h}"));
    std::vector<RawClient> clients;
    for (int i = 0; i < kClients; ++i) clients.push_back(tidegate.client());
    // Six of the clients share a key, the others have one of their own.
    const auto key_of = [](int client) { return std::to_string(client < 6 ? 0 : client); };
    Statuses shared;
    Statuses alone;
    for (int round = 0; round < kRounds; ++round) {
        for (int i = 0; i < kClients; ++i) clients[i].send(get_request("/?k=" + key_of(i)));
        for (int i = 0; i < kClients; ++i) {
            ++(i < 6 ? shared : alone)[clients[i].response().status()];
        }
    }
    CHECK(shared == Statuses{{200, 20}, {429, 6 * kRounds - 20}});
    CHECK(alone == Statuses{{200, (kClients - 6) * kRounds}});
    CHECK_SOON(decisions(tidegate, "denied") == 6 * kRounds - 20);
}

TEST_CASE("batching: costs in one command are charged in order, each with a verdict of its own") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\ndeny_cache: off\n" + counted.yaml() +
        api(upstream,
            "policies: {p: {key: [\"query:k\"], limits: [{name: units, quota: 40, per: "
            "1h}]}}\nroutes: [{name: all, upstream: api, policies: [p], cost: {header: "
            "x-cost, from: anyone, max: 40}}]\n"));
    CHECK(tidegate.get("/?k=warm").status() == 200);
    std::vector<RawClient> clients;
    for (int i = 0; i < 32; ++i) clients.push_back(tidegate.client());
    stop(tidegate);
    for (std::size_t i = 0; i < clients.size(); ++i)
        clients[i].send(get_request("/?k=same", "X-Cost: " + std::to_string(1 + i % 4) + "\r\n"));
    tidegate.signal(SIGCONT);
    std::size_t taken = 0;
    for (std::size_t i = 0; i < clients.size(); ++i) {
        if (clients[i].response().status() == 200) taken += 1 + i % 4;
    }
    // Every unit is used.
    CHECK(taken == 40);
    CHECK(tidegate.get("/?k=same").status() == 429);
}

}  // namespace tidegate::test::deny_cache_test

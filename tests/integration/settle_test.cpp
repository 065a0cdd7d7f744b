// Settling reservations while Redis, the network or a node of its cluster fails: a settlement
// without an answer is sent again, and nothing is corrected twice.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cluster_world.hpp"
#include "fault_proxy.hpp"
#include "integration/check_world.hpp"
#include "integration/limiter_world.hpp"

namespace tidegate::test::settle_test {

using nlohmann::json;

namespace {

// A reply must come soon: these tests wait for replies that do not come.
const std::string kImpatient = ", timeout: 100ms, breaker: {probe_every: 20ms}";
const std::string kDenying = "on_store_failure: deny\n" + kCheckSecret + kCheckPolicies;

std::string redis_at(std::uint16_t port, const std::string& more) {
    return "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(port) + "/0\"" + more +
           "}}\n";
}

void check_unanswered(const Message& settled) {
    CHECK(settled.status() == 503);
    CHECK(settled.has("Retry-After"));
    CHECK(settled.body.find("Send the same settle again") != std::string::npos);
}

}  // namespace

TEST_CASE("settle: a settlement whose answer was lost may be repeated at any replica") {
    const CountedIn counted = counted_in_redis();
    FaultProxy network(counted.redis->port());
    const CheckApi one(redis_at(network.port(), kImpatient) + kDenying);
    const CheckApi two(counted.yaml() + kDenying);
    // Others count, too: only the claim keeps a second settlement from giving back units of theirs.
    for (const std::string user : {"alice", "bob", "carol"}) {
        REQUIRE(two.take(user, 1).status() == 200);
    }
    const std::string less = one.reserve("alice", 3);
    const std::string more = one.reserve("bob", 1);
    const std::string both = one.reserve("carol", 3);
    network.swallow();
    check_unanswered(one.settle(less, 1));
    check_unanswered(one.settle(more, 3));
    // Another replica is quicker, with another cost.
    check_unanswered(one.settle(both, 0));
    CHECK(two.settle(both, 1).status() == 200);
    // The delayed bytes arrive now.
    network.heal();
    const auto settled = [&](const std::string& id, int cost) {
        await("the settle is answered", [&] { return one.settle(id, cost).status() == 200; });
        CHECK(one.settle(id, cost).status() == 200);
        CHECK(two.settle(id, cost).status() == 200);
        CHECK(two.settle(id, cost + 1).status() == 409);
    };
    settled(less, 1);
    settled(more, 3);
    settled(both, 1);
    CHECK(two.left("alice") == 3);
    CHECK(two.left("bob") == 1);
    CHECK(two.left("carol") == 3);
}

TEST_CASE("settle: costs whose answer was lost are counted once, those that are less and more") {
    const CountedIn counted = counted_in_redis();
    FaultProxy network(counted.redis->port());
    const CheckApi one(redis_at(network.port(), kImpatient) + kDenying);
    const CheckApi two(counted.yaml() + kDenying);
    const auto item = [](const std::string& identifier, int cost) {
        return R"({"policy":"per-user","identifiers":{"user":")" + identifier + R"("},"cost":)" +
               std::to_string(cost) + "}";
    };
    const Message reserved =
        one.post("/v1/reserve", R"({"all":[)" + item("alice", 4) + "," + item("bob", 1) + "]}");
    REQUIRE(reserved.status() == 200);
    const std::string id = json::parse(reserved.body).at("id").get<std::string>();
    network.swallow();
    check_unanswered(one.settle_all(id, "[2,3]"));
    // Another replica is quicker, with other costs.
    CHECK(two.settle_all(id, "[1,4]").status() == 200);
    network.heal();
    await("the settle is answered", [&] { return one.settle_all(id, "[1,4]").status() == 200; });
    CHECK(one.settle_all(id, "[2,3]").status() == 409);
    CHECK(two.settle_all(id, "[1,4]").status() == 200);
    CHECK(two.left("alice") == 4);
    CHECK(two.left("bob") == 1);
}

TEST_CASE("settle: of many settlements at once, on two replicas, one cost counts, once") {
    const CountedIn counted = counted_in_redis();
    const CheckApi one(counted.yaml() + kDenying);
    const CheckApi two(counted.yaml() + kDenying);
    const std::string id = one.reserve("alice", 3);
    std::vector<int> statuses(8);
    std::vector<std::thread> programs;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
        programs.emplace_back([&, i] {
            const int cost = static_cast<int>(i / 2 % 2);
            statuses[i] = (i % 2 == 0 ? one : two).settle(id, cost).status();
        });
    }
    for (std::thread& program : programs) program.join();
    const int counts = statuses[0] == 200 ? 0 : 1;
    for (std::size_t i = 0; i < statuses.size(); ++i) {
        CHECK(statuses[i] == (static_cast<int>(i / 2 % 2) == counts ? 200 : 409));
    }
    CHECK(one.left("alice") == 5 - counts);
}

TEST_CASE("settle: no worker of the process repeats a denial from before the units came back") {
    const CountedIn counted = counted_in_redis();
    const CheckApi api("threads: 2\n" + counted.yaml() + kDenying);
    const std::string id = api.reserve("alice", 5);
    // Enough connections for both workers to have refused.
    for (int i = 0; i < 40; ++i) CHECK(api.take("alice").status() == 429);
    CHECK(api.settle(id, 0).status() == 200);
    for (int i = 0; i < 5; ++i) CHECK(api.take("alice").status() == 200);
    CHECK(api.take("alice").status() == 429);
}

TEST_CASE("settle: in a cluster each slot is corrected once, a slot that was away later") {
    ClusterWorld world({.masters = 3});
    // A user whose counts are on that node.
    const auto user_on = [&](std::size_t node) {
        const auto slots = world.slots_of(node);
        for (int i = 0;; ++i) {
            const std::string user = "u" + std::to_string(i);
            if (std::binary_search(slots.begin(), slots.end(),
                                   world.slot_of("{user:" + user + "}"))) {
                return user;
            }
        }
    };
    const std::vector<std::string> users{user_on(0), user_on(1), user_on(2)};
    const CheckApi api("store: {redis: {cluster: " + world.urls() + kImpatient + "}}\n" + kDenying);
    std::string items;
    for (const std::string& user : users) {
        await("its node answers", [&] { return api.take(user, 1).status() == 200; });
        items += (items.empty() ? "" : ",") +
                 (R"({"policy":"per-user","identifiers":{"user":")" + user + R"("},"cost":3})");
    }
    const auto reserve = [&] {
        const Message reserved = api.post("/v1/reserve", R"({"all":[)" + items + "]}");
        REQUIRE(reserved.status() == 200);
        return json::parse(reserved.body).at("id").get<std::string>();
    };
    std::size_t away = 0;
    SUBCASE("the first, which decides the cost") {}
    SUBCASE("another") {
        away = 2;
    }
    const std::string id = reserve();
    world.node(away).pause();
    check_unanswered(api.settle(id, 1));
    world.node(away).resume();
    await("the settle is answered", [&] { return api.settle(id, 1).status() == 200; });
    for (int i = 0; i < 2; ++i) CHECK(api.settle(id, 1).status() == 200);
    CHECK(api.settle(id, 2).status() == 409);
    for (const std::string& user : users) CHECK(api.left(user) == 3);
}

TEST_CASE("settle: a replica or a successor with other limits corrects what the reservation took") {
    const CountedIn counted = counted_in_redis();
    const auto limited_by = [&](const std::string& limits) {
        return counted.yaml() + "on_store_failure: deny\n" + kCheckSecret +
               "policies: {per-user: {key: [user], limits: [" + limits + "]}}\n";
    };
    const CheckApi old(limited_by("20/h"));
    const CheckApi next(limited_by("9/day, 20/h"));
    const std::string less = old.reserve("alice", 8);
    const std::string more = old.reserve("bob", 8);
    for (const std::string user : {"alice", "bob"}) REQUIRE(next.take(user, 4).status() == 200);
    CHECK(next.settle(less, 0).status() == 200);
    CHECK(next.settle(more, 10).status() == 200);
    using Left = std::vector<int>;
    CHECK(next.all_left("alice") == Left{5, 16});
    CHECK(next.all_left("bob") == Left{5, 6});
    // And one of the new limits by a process that has the old ones still.
    CHECK(old.settle(next.reserve("carol", 8), 2).status() == 200);
    CHECK(next.all_left("carol") == Left{1, 18});
}

TEST_CASE("settle: after a reload only the limits that the reservation took from are corrected") {
    std::unique_ptr<ClusterWorld> cluster;
    std::unique_ptr<RedisServer> redis;
    std::string store;
    SUBCASE("memory") {}
    SUBCASE("Redis") {
        redis = std::make_unique<RedisServer>();
        store = redis_at(redis->port(), ", timeout: 5s");
    }
    SUBCASE("Redis Cluster") {
        cluster = std::make_unique<ClusterWorld>(ClusterWorld::Options{.masters = 3});
        store = "store: {redis: {cluster: " + cluster->urls() + ", timeout: 5s}}\n";
    }
    const auto limited_by = [&](const std::string& limits) {
        return store + "on_store_failure: deny\n" + kCheckSecret +
               "policies: {per-user: {key: [user], limits: [" + limits + "]}}\n";
    };
    const std::string hour = "{quota: 100, per: 1h}";
    const std::string day = "{quota: 50, algorithm: fixed_window, anchor: utc_day}";
    const std::string bucket = "{quota: 100, per: 1h, burst: 100, algorithm: gcra, name: steady}";
    const std::string slow_bucket =
        "{quota: 10, per: 1h, burst: 10, algorithm: gcra, name: steady}";
    using Left = std::vector<int>;

    const CheckApi api(limited_by(hour + ", " + bucket));
    await("the store answers", [&] { return api.take("nobody", 0).status() == 200; });
    const std::string less = api.reserve("alice", 8);
    const std::string more = api.reserve("bob", 8);

    // One more, before those that were there.
    api.reload(limited_by(day + ", " + hour + ", " + bucket));
    for (const std::string user : {"alice", "bob"}) REQUIRE(api.take(user, 10).status() == 200);
    CHECK(api.settle(less, 0).status() == 200);
    CHECK(api.settle(more, 18).status() == 200);
    CHECK(api.all_left("alice") == Left{40, 90, 90});
    CHECK(api.all_left("bob") == Left{40, 72, 72});

    // One is gone, and the other one has another quota: it gets back what it gave, as time.
    const std::string last = api.reserve("carol", 8);
    api.reload(limited_by(slow_bucket));
    CHECK(api.all_left("carol") == Left{9});
    CHECK(api.settle(last, 4).status() == 200);
    CHECK(api.all_left("carol") == Left{9});
    CHECK(api.take("carol", 9).status() == 200);
    CHECK(api.all_left("carol") == Left{0});
}

}  // namespace tidegate::test::settle_test

// The check API: programs charge, reserve and settle.

#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/check_world.hpp"
#include "integration/limiter_world.hpp"
#include "integration/own_network.hpp"
#include "integration/soon.hpp"
#include "places.hpp"

namespace tidegate::test::check_api_test {

using nlohmann::json;

TEST_CASE("check API: a policy admits up to its quota, then says when to come back") {
    const CountedIn counted = either_store();
    const CheckApi api(counted.yaml() + kCheckPolicies);
    const Message first = api.take("alice", 3);
    CHECK(first.status() == 200);
    CHECK(first.field("Content-Type") == "application/json");
    CHECK(first.field("RateLimit").starts_with("\"per-user-1h\";r=2;t="));
    const json told = json::parse(first.body);
    CHECK(told.at("admitted") == true);
    const json& limit = told.at("limits").at(0);
    CHECK(limit.at("policy") == "per-user");
    CHECK(limit.at("limit") == "per-user-1h");
    CHECK(limit.at("identifier") == "user:alice");
    CHECK(limit.at("quota") == 5);
    CHECK(limit.at("left") == 2);
    CHECK(limit.at("reset_ms").get<int>() > 3'400'000);
    const Message over = api.take("alice", 3);
    CHECK(over.status() == 429);
    CHECK(over.has("Retry-After"));
    CHECK(json::parse(over.body).at("admitted") == false);
    CHECK(json::parse(over.body).at("retry_after_ms").get<int>() > 3'400'000);
    CHECK(api.take("alice", 2).status() == 200);
    CHECK(api.take("bob").status() == 200);
    // The log has the calls, with what was counted; those of several threads in any order.
    int of_alice = 0;
    for (const auto& line : api.tidegate().access_log(4)) {
        CHECK(line.at("face") == "check");
        if (line.at("identifiers")[0] == "user:alice") ++of_alice;
    }
    CHECK(of_alice == 3);
}

TEST_CASE("check API: a cost of 0 shows what is left and takes nothing") {
    const CheckApi api;
    CHECK(api.left("alice") == 5);
    CHECK(api.left("alice") == 5);
    CHECK(api.take("alice", 5).status() == 200);
    CHECK(api.left("alice") == 0);
    CHECK(api.take("alice").status() == 429);
}

TEST_CASE("check API: routes and identity decide about a request as in the proxy") {
    const CheckApi api;
    const auto ask = [&](const std::string& path, const std::string& from) {
        return api.check(R"({"request":{"path":")" + path + R"(","from":")" + from +
                         R"(","headers":{"X-Forwarded-For":"192.0.2.9"}}})");
    };
    CHECK(ask("/v1/a", "192.0.2.1").status() == 200);
    CHECK(ask("/v1/b", "192.0.2.1").status() == 200);
    CHECK(ask("/v1/b", "192.0.2.1").status() == 429);
    CHECK(ask("/v1/b", "192.0.2.2").status() == 200);
    CHECK(ask("/other", "192.0.2.1").status() == 404);
    CHECK(ask("/v1/%2e%2e/x", "192.0.2.1").status() == 400);
    // The program passes the request on as it is.
    for (const std::string field : {"X-Original-URL", "x_rewrite_url"}) {
        CHECK(api.check(R"({"request":{"path":"/v1/c","from":"192.0.2.1","headers":{")" + field +
                        R"(":"/other"}}})")
                  .status() == 400);
    }
    // Without an address nothing can be counted.
    CHECK(api.check(R"({"request":{"path":"/v1/a"}})").status() == 400);
}

TEST_CASE("check API: `all` takes everything or nothing, `each` charges each item by itself") {
    const CountedIn counted = either_store();
    const CheckApi api(counted.yaml() + kCheckPolicies);
    const std::string alice = R"({"policy":"per-user","identifiers":{"user":"alice"},"cost":2})";
    const std::string bob = R"({"policy":"per-user","identifiers":{"user":"bob"},"cost":2})";
    CHECK(api.take("bob", 4).status() == 200);
    CHECK(api.check(R"({"all":[)" + alice + "," + bob + "]}").status() == 429);
    CHECK(api.left("alice") == 5);
    const Message each = api.check(R"({"each":[)" + alice + "," + bob + "," + alice + "]}");
    CHECK(each.status() == 200);
    const json told = json::parse(each.body).at("each");
    REQUIRE(told.size() == 3);
    CHECK(told.at(0).at("admitted") == true);
    CHECK(told.at(1).at("admitted") == false);
    CHECK(told.at(1).at("status") == 429);
    CHECK(told.at(2).at("admitted") == true);
    CHECK(api.left("alice") == 1);
    const Message both =
        api.check(R"({"all":[{"policy":"per-user","identifiers":{"user":"alice"}},)"
                  R"({"policy":"both","identifiers":{"user":"alice","header:x-tenant":"t"}}]})");
    CHECK(both.status() == 200);
    CHECK(json::parse(both.body).at("limits").size() == 2);
    CHECK(api.left("alice") == 0);
}

TEST_CASE("check API: a malformed call is refused with a sentence, and takes nothing") {
    const CheckApi api;
    const std::vector<std::string> wrong{
        "",
        "[]",
        "{",
        R"({"policy":"per-user"})",
        R"({"policy":"per-user","identifiers":{}})",
        R"({"policy":"per-user","identifiers":{"user":""}})",
        R"({"policy":"per-user","identifiers":{"user":"alice","ip":"192.0.2.1"}})",
        R"({"policy":"per-user","identifiers":{"user":"alice"},"cost":-1})",
        R"({"policy":"per-user","identifiers":{"user":"alice"},"cost":1.5})",
        R"({"policy":"per-user","identifiers":{"user":"alice"},"cost":"1"})",
        R"({"policy":"per-user","identifiers":{"user":"alice"},"costs":1})",
        R"({"policy":"per-user","policy":"per-user","identifiers":{"user":"alice"}})",
        R"({"policy":"none","identifiers":{"user":"alice"}})",
        R"({"policy":"per-ip","identifiers":{"ip":"here"}})",
        R"({"policy":"both","identifiers":{"user":"alice"}})",
        R"({"policy":"both","identifiers":{"user":"alice","header:x-tenant":"a\r\nX-B: c"}})",
        R"({"request":{"path":"x"}})",
        R"({"request":{"path":"/v1/a HTTP/1.1\r\nX: y"}})",
        R"({"request":{"path":"/v1/a","from":"192.0.2"}})",
        R"({"request":{"path":"/v1/a","from":"192.0.2.1","headers":{"a b":"c"}}})",
        R"({"request":{"path":"/v1/a"},"policy":"per-user"})",
        R"({"all":[]})",
        R"({"each":[]})",
        R"({"all":[{"policy":"per-user","identifiers":{"user":"alice"}}],"cost":1})",
        R"({"all":[{"policy":"per-user","identifiers":{"user":"alice"}},)"
        R"({"policy":"per-user","identifiers":{"user":"alice"}}]})",
    };
    for (const std::string& body : wrong) {
        CAPTURE(body);
        const Message answer = api.check(body);
        CHECK(answer.status() == 400);
        CHECK(json::parse(answer.body).at("detail").get<std::string>().size() > 10);
    }
    std::string many = R"({"each":[)";
    for (int i = 0; i < 101; ++i) many += std::string(i ? "," : "") + R"({"policy":"p"})";
    CHECK(api.check(many + "]}").status() == 400);
    CHECK(api.check(std::string(70'000, ' ')).status() == 413);
    CHECK(api.left("alice") == 5);
    CHECK(RawClient(api.port()).get("/v1/check").status() == 405);
    CHECK(api.post("/v2/check", "{}").status() == 404);
}

TEST_CASE(
    "check API: captures and claims are named as other parts are, and none passes uncounted") {
    const CheckApi api(
        "policies: {cap: {key: [\"path:id\"], limits: [2/h]}, claim: {key: [\"claim:org\"], "
        "on_missing: skip, limits: [2/h]}, shared: {key: [\"claim:org\"], on_missing: shared, "
        "limits: [2/h]}}\n");
    const auto ask = [&](const std::string& policy, const std::string& part,
                         const std::string& value) {
        return R"({"policy":")" + policy + R"(","identifiers":{")" + part + R"(":")" + value +
               R"("},"cost":2})";
    };
    for (const auto& [policy, part] : std::vector<std::pair<std::string, std::string>>{
             {"cap", "path:id"}, {"claim", "claim:org"}, {"shared", "claim:org"}}) {
        CAPTURE(policy);
        const Message first = api.check(ask(policy, part, "x"));
        CHECK(first.status() == 200);
        CHECK(json::parse(first.body).at("limits").at(0).at("identifier") == part + "=x");
        CHECK(api.check(ask(policy, part, "x")).status() == 429);
        CHECK(api.post("/v1/reserve", ask(policy, part, "x")).status() == 429);
        CHECK(api.post("/v1/reserve", ask(policy, part, "y")).status() == 200);
        CHECK(api.check("{\"each\":[" + ask(policy, part, "z") + "]}").status() == 200);
        CHECK(api.check(ask(policy, part, "z")).status() == 429);
        CHECK(api.check(ask(policy, part, "")).status() == 400);
    }
}

TEST_CASE("check API: one call charges tiers, many identifiers, and names that are alike") {
    const TemporaryFolder folder;
    const CheckApi api(
        "policies: {tiered: {key: [user], limits: [9/h, 99/d], tiers: {gold: [999/d]}}, alike: "
        "{key: "
        "[\"header:x-tenant\", \"header:tenant\"], limits: [3/h]}}\n"
        "identity: {users: \"" +
        folder.write("users.yaml", "alice: {tier: gold}\n") + "\"}\n");
    const auto user = [](const std::string& name) {
        return R"({"policy":"tiered","identifiers":{"user":")" + name + R"("}})";
    };
    const Message mixed =
        api.check(R"({"all":[)" + user("alice") + "," + user("bob") + "," + user("carol") + "]}");
    CHECK(mixed.status() == 200);
    CHECK(json::parse(mixed.body).at("limits").size() == 5);
    std::string many;
    for (int i = 0; i < 65; ++i) many += (i ? "," : "") + user("user-" + std::to_string(i));
    CHECK(api.check(R"({"all":[)" + many + "]}").status() == 400);
    const auto alike = [&](int number) {
        return api.check(R"({"policy":"alike","identifiers":{"header:x-tenant":"b)" +
                         std::to_string(number) + R"(","header:tenant":"b"}})");
    };
    for (int i = 0; i < 3; ++i) CHECK(alike(i).status() == 200);
    CHECK(alike(3).status() == 429);
}

TEST_CASE("check API: an answer to HEAD has no body") {
    const CheckApi api;
    RawClient client(api.port());
    const std::string head = "HEAD /v1/check HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(head + head);
    for (int i = 0; i < 2; ++i) {
        const Message answer = client.response_to_head();
        CHECK(answer.status() == 405);
        CHECK(answer.field("Allow") == "POST");
    }
}

TEST_CASE(
    "check API: a configured token is required; without one, pages of a browser are refused") {
    const CheckApi open;
    CHECK(open.post("/v1/check", "{}", "Origin: https://evil.example\r\n").status() == 403);
    const CheckApi api(kCheckPolicies, ", token: let-me-in");
    CHECK(api.take("alice").status() == 401);
    CHECK(api.take("alice").field("WWW-Authenticate") == "Bearer");
    const std::string ask = R"({"policy":"per-user","identifiers":{"user":"alice"}})";
    CHECK(api.post("/v1/check", ask, "Authorization: Bearer wrong\r\n").status() == 401);
    CHECK(api.post("/v1/check", ask, "Authorization: Bearer let-me-in\r\n").status() == 200);
}

TEST_CASE("check API: a reservation is settled once, for less, for nothing, or for more") {
    const CountedIn counted = either_store();
    const CheckApi api(counted.yaml() + kCheckSecret + kCheckPolicies);
    SUBCASE("less") {
        const std::string id = api.reserve("alice", 4);
        CHECK(api.left("alice") == 1);
        CHECK(api.settle(id, 1).status() == 200);
        CHECK(api.left("alice") == 4);
    }
    SUBCASE("nothing") {
        CHECK(api.settle(api.reserve("alice", 5), 0).status() == 200);
        CHECK(api.left("alice") == 5);
    }
    SUBCASE("as much") {
        CHECK(api.settle(api.reserve("alice", 2), 2).status() == 200);
        CHECK(api.left("alice") == 3);
    }
    SUBCASE("more, also above the quota") {
        CHECK(api.settle(api.reserve("alice", 2), 4).status() == 200);
        CHECK(api.left("alice") == 1);
        CHECK(api.settle(api.reserve("alice", 1), 50).status() == 200);
        CHECK(api.left("alice") == 0);
        CHECK(api.take("alice").status() == 429);
        CHECK(api.left("bob") == 5);
    }
    SUBCASE("more, where the quota was refused a moment ago") {
        const std::string id = api.reserve("alice", 5);
        CHECK(api.take("alice").status() == 429);
        CHECK(api.settle(id, 7).status() == 200);
        const Message asked = api.take("alice", 0);
        CHECK(CheckApi::left_of(asked) == 0);
    }
}

TEST_CASE(
    "check API: a repeated settlement gets the same answer, another cost 409 with the first cost") {
    const CountedIn counted = either_store();
    const CheckApi api(counted.yaml() + kCheckSecret + kCheckPolicies);
    for (const int cost : {1, 2, 3}) {
        CAPTURE(cost);
        const std::string user = "user" + std::to_string(cost);
        const std::string id = api.reserve(user, 2);
        const Message first = api.settle(id, cost);
        CHECK(first.status() == 200);
        for (int i = 0; i < 2; ++i) {
            const Message again = api.settle(id, cost);
            CHECK(again.status() == 200);
            CHECK(again.body == first.body);
        }
        for (const int other : {0, 4}) {
            const Message refused = api.settle(id, other);
            CHECK(refused.status() == 409);
            CHECK(refused.field("Content-Type") == "application/problem+json");
            CHECK(json::parse(refused.body).at("cost") == cost);
        }
        CHECK(api.left(user) == 5 - cost);
    }
}

TEST_CASE("check API: a reservation over the quota is refused") {
    const CheckApi api;
    const Message answer =
        api.post("/v1/reserve", R"({"policy":"per-user","identifiers":{"user":"alice"},"cost":6})");
    CHECK(answer.status() == 429);
    CHECK_FALSE(json::parse(answer.body).contains("id"));
}

TEST_CASE("check API: any replica settles a reservation of another, once") {
    const CountedIn counted = counted_in_redis();
    const CheckApi one(counted.yaml() + kCheckSecret + kCheckPolicies);
    const CheckApi two(counted.yaml() + kCheckSecret + kCheckPolicies);
    const std::string id = one.reserve("alice", 4);
    CHECK(two.settle(id, 1).status() == 200);
    CHECK(one.left("alice") == 4);
    CHECK(one.settle(id, 1).status() == 200);
    CHECK(one.settle(id, 2).status() == 409);
    CHECK(one.left("alice") == 4);
    const CheckApi stranger(counted.yaml() + "check: {secret: fedcba9876543210}\n" +
                            kCheckPolicies);
    CHECK(stranger.settle(one.reserve("alice", 1), 0).status() == 400);
}

TEST_CASE("check API: an id that was changed or has expired gives nothing back") {
    const CheckApi api(kCheckSecret + kCheckPolicies);
    std::string id = api.reserve("alice", 4);
    const std::string good = id;
    id[id.size() / 2] = id[id.size() / 2] == 'A' ? 'B' : 'A';
    CHECK(api.settle(id, 0).status() == 400);
    CHECK(api.settle("", 0).status() == 400);
    CHECK(api.settle("AAAA", 0).status() == 400);
    CHECK(api.settle(good + "A", 0).status() == 400);
    CHECK(api.left("alice") == 1);
    const std::string brief = api.reserve("bob", 4, R"(,"ttl":"1s")");
    std::this_thread::sleep_for(milliseconds{1'050});
    CHECK(api.settle(brief, 0).status() == 410);
    CHECK(api.left("bob") == 1);
    CHECK(api.post("/v1/reserve", R"({"policy":"per-user","identifiers":{"user":"a"},"ttl":"25h"})")
              .status() == 400);
}

TEST_CASE("check API: a reservation over several policies is settled as one") {
    const CountedIn counted = either_store();
    const CheckApi api(counted.yaml() + kCheckSecret + kCheckPolicies);
    const Message reserved =
        api.post("/v1/reserve",
                 R"({"all":[{"policy":"per-user","identifiers":{"user":"alice"},"cost":2},)"
                 R"({"policy":"per-user","identifiers":{"user":"bob"},"cost":2}],"ttl":"5min"})");
    REQUIRE(reserved.status() == 200);
    const std::string id = json::parse(reserved.body).at("id").get<std::string>();
    for (int i = 0; i < 2; ++i) CHECK(api.settle(id, 1).status() == 200);
    CHECK(api.left("alice") == 4);
    CHECK(api.left("bob") == 4);
}

TEST_CASE("check API: items of a reservation have costs of their own, and so has its settlement") {
    const CountedIn counted = either_store();
    const CheckApi api(counted.yaml() + kCheckSecret + kCheckPolicies);
    const auto item = [](const std::string& user, int cost) {
        return R"({"policy":"per-user","identifiers":{"user":")" + user + R"("},"cost":)" +
               std::to_string(cost) + "}";
    };
    const std::string all = item("alice", 4) + "," + item("bob", 1) + "," + item("carol", 2);
    const Message reserved = api.post("/v1/reserve", R"({"all":[)" + all + R"(],"ttl":"2h"})");
    REQUIRE(reserved.status() == 200);
    const json answer = json::parse(reserved.body);
    CHECK(answer.at("costs") == json::array({4, 1, 2}));
    CHECK(api.left("alice") == 1);
    CHECK(api.left("bob") == 4);
    CHECK(api.left("carol") == 3);
    // Items that together are too much take nothing.
    const std::string more = item("alice", 2) + "," + item("bob", 1);
    CHECK(api.post("/v1/reserve", R"({"all":[)" + more + "]}").status() == 429);
    CHECK(api.left("bob") == 4);

    const std::string id = answer.at("id").get<std::string>();
    const Message single = api.settle(id, 1);
    CHECK(single.status() == 400);
    CHECK(single.body.find("the reservation has 3 costs: write `costs`") != std::string::npos);
    CHECK(api.settle_all(id, "[1,2]").body.find("costs: the reservation has 3 costs") !=
          std::string::npos);
    CHECK(api.settle_all(id, "[1,2,0.5]").body.find("costs[2]: write a whole number") !=
          std::string::npos);
    // Less, more, and more than the quota.
    for (int i = 0; i < 2; ++i) {
        const Message settled = api.settle_all(id, "[1,3,9]");
        CHECK(settled.status() == 200);
        CHECK(json::parse(settled.body).at("costs") == json::array({1, 3, 9}));
    }
    const Message other = api.settle_all(id, "[1,3,8]");
    CHECK(other.status() == 409);
    CHECK(json::parse(other.body).at("costs") == json::array({1, 3, 9}));
    CHECK(api.left("alice") == 4);
    CHECK(api.left("bob") == 2);
    CHECK(api.left("carol") == 0);
    CHECK(api.settle_all(api.reserve("dave", 3), "[1]").status() == 200);
    CHECK(api.left("dave") == 4);
}

TEST_CASE("check API: calls, tokens and dollars of one request are reserved and settled together") {
    const CountedIn counted = either_store();
    const CheckApi api(
        counted.yaml() + kCheckSecret +
        "policies:\n"
        "  calls: {key: [ip], limits: [10/h]}\n"
        "  tokens: {key: [ip], limits: [100/h], cost: {reserve: 20, settle: {header: x-cost}}}\n"
        "  budget: {key: [ip], limits: [{quota: 3, per: 1h, unit: usd}], cost: {reserve: 0.25, "
        "settle: {header: x-usd}, unit: usd}}\n"
        "  wide: {key: [ip], limits: [{quota: 1000000000, per: 1h, unit: usd}], cost: {reserve: 0, "
        "settle: {header: x-usd}, unit: usd}}\n"
        "routes: [{match: {path: /chat}, policies: [calls, tokens, budget]}]\n");
    const std::string request = R"({"request":{"path":"/chat","from":"192.0.2.1"}})";
    const auto left = [&] {
        json each = json::array();
        for (const char* policy : {"calls", "tokens", "budget"}) {
            const Message asked = api.check(R"({"policy":")" + std::string(policy) +
                                            R"(","identifiers":{"ip":"192.0.2.1"},"cost":0})");
            each.push_back(json::parse(asked.body).at("limits").at(0).at("left"));
        }
        return each;
    };
    // Without a settlement, what is reserved stays.
    CHECK(api.check(request).status() == 200);
    CHECK(left() == json::array({9, 80, 2.75}));
    const Message reserved = api.post("/v1/reserve", request);
    REQUIRE(reserved.status() == 200);
    const json answer = json::parse(reserved.body);
    CHECK(answer.at("costs") == json::array({1, 20, 0.25}));
    CHECK(answer.at("limits").at(2).at("quota") == 3);
    const std::string id = answer.at("id").get<std::string>();
    CHECK(api.settle(id, 5).status() == 400);
    CHECK(api.settle_all(id, "[1,5,0.750001]").status() == 200);
    CHECK(api.settle_all(id, "[1,5,0.750001]").status() == 200);
    CHECK(left() == json::array({8, 75, 1.999999}));
    // Counted once, though settled twice; what was not settled is not counted.
    const auto counted_by = [&](const std::string& series) {
        return api.tidegate().metric("tidegate_usage_" + series);
    };
    CHECK(counted_by("cost_total{policy=\"tokens\"}") == 5);
    CHECK(counted_by("reserved_total{policy=\"tokens\"}") == 20);
    CHECK(counted_by("cost_total{policy=\"budget\"}") == 750'001);
    CHECK(counted_by("usd_total{policy=\"budget\",model=\"other\"}") == 0.750001);
    // Of one policy.
    const auto spend = [&](const std::string& cost) {
        return api.check(R"({"policy":"budget","identifiers":{"ip":"192.0.2.2"},"cost":)" + cost +
                         "}");
    };
    CHECK(spend("2.5").status() == 200);
    CHECK(spend("0.500001").status() == 429);
    CHECK(spend("0.5").status() == 200);
    // A billion dollars is counted to the millionth.
    const std::string of_wide = R"({"policy":"wide","identifiers":{"ip":"192.0.2.1"},"cost":)";
    const auto left_of_wide = [&] {
        return json::parse(api.check(of_wide + "0}").body).at("limits").at(0).at("left");
    };
    const Message much = api.post("/v1/reserve", of_wide + "999999999.999999}");
    REQUIRE(much.status() == 200);
    CHECK(left_of_wide() == 0.000001);
    const std::string much_id = json::parse(much.body).at("id").get<std::string>();
    for (int i = 0; i < 2; ++i) {
        CHECK(
            api.post("/v1/settle", R"({"id":")" + much_id + R"(","cost":999999999.5})").status() ==
            200);
    }
    CHECK(left_of_wide() == 0.5);
}

TEST_CASE("check API: of a route with a limit that needs the end of a request, calls are refused") {
    const CheckApi api(kCheckSecret +
                       "policies:\n"
                       "  busy: {key: [ip], limits: [{quota: 2, algorithm: concurrency}]}\n"
                       "  guesses: {key: [ip], limits: [{quota: 3, per: 1h, count: [401]}]}\n"
                       "  calls: {key: [ip], limits: [5/h]}\n"
                       "routes:\n"
                       "  - {name: work, match: {path: /work}, policies: [busy, calls]}\n"
                       "  - {name: login, match: {path: /login}, policies: [guesses]}\n"
                       "  - {name: other, match: {path: /other}, policies: [calls]}\n");
    const auto ask = [&](const std::string& path) {
        return api.check(R"({"request":{"path":")" + path + R"(","from":"192.0.2.1"}})");
    };
    for (const std::string path : {"/work", "/login"}) {
        CAPTURE(path);
        const Message refused = ask(path);
        CHECK(refused.status() == 400);
        CHECK(refused.body.find("needs the end of the request") != std::string::npos);
    }
    CHECK(api.check(R"({"policy":"busy","identifiers":{"ip":"192.0.2.1"}})").status() == 400);
    CHECK(CheckApi::left_of(ask("/other")) == 4);
}

TEST_CASE("check API: many reservations at once never exceed the quota, settled or not") {
    const CountedIn counted = either_store();
    const CheckApi api(counted.yaml() + kCheckSecret +
                       "policies: {per-user: {key: [user], limits: [40/h]}}\nroutes: [{policies: "
                       "[per-user]}]\n");
    std::atomic<int> admitted{0};
    std::vector<std::thread> programs;
    for (int i = 0; i < 4; ++i) {
        programs.emplace_back([&] {
            for (int k = 0; k < 20; ++k) admitted += api.take("alice").status() == 200 ? 1 : 0;
        });
    }
    for (std::thread& program : programs) program.join();
    CHECK(admitted == 40);
}

TEST_CASE("check API: without Redis the failure policy decides, and nothing is settled twice") {
    CountedIn counted = counted_in_redis();
    const CheckApi api(counted.yaml() + kCheckSecret +
                       "on_store_failure: deny\npolicies: {per-user: {key: [user], limits: "
                       "[5/h]}}\nroutes: [{policies: [per-user]}]\n");
    const std::string id = api.reserve("alice", 2);
    counted.redis.reset();
    CHECK(api.take("alice").status() == 503);
    const Message unsettled = api.settle(id, 0);
    CHECK(unsettled.status() == 503);
    CHECK(unsettled.has("Retry-After"));
}

TEST_CASE("check API: the example clients in shell, Python and C++ do what they say") {
    const CheckApi api(kCheckSecret + kCheckPolicies);
    const std::string folder = source_folder() + "/examples/check/";
    const std::string port = std::to_string(api.port());
    const std::string url = "http://127.0.0.1:" + port;
    const auto run = [](const std::vector<std::string>& arguments) {
        const TemporaryFolder output;
        Process client(arguments, output.path());
        const auto code = client.wait(kPatience);
        REQUIRE(code.has_value());
        return std::pair(*code, client.output() + client.errors());
    };
    CHECK(run({folder + "client.sh", url, "alice"}) == std::pair(0, std::string("admitted\n")));
    CHECK(run({CHECK_CLIENT, port, "alice"}) == std::pair(0, std::string("admitted, 3 left\n")));
    CHECK(run({folder + "client.py", url, "alice", "3", "1"}) ==
          std::pair(0, std::string("admitted, 1 units settled\n")));
    CHECK(api.left("alice") == 2);
    CHECK(run({folder + "client.py", url, "alice", "3", "1"}).first == 1);
    CHECK(api.take("alice", 2).status() == 200);
    CHECK(run({folder + "client.sh", url, "alice"}) == std::pair(1, std::string("refused\n")));
    CHECK(run({CHECK_CLIENT, port, "alice"}).first == 1);
}

TEST_CASE(
    "check API: the quickstart of a face shows how to call it, and refuses a call in the end") {
    in_own_network([] {
        const auto run = [](const std::string& face, const auto& asked) {
            const TemporaryFolder folder;
            Process quickstart({program(), "quickstart", "--face", face}, folder.path());
            await_quietly(
                [&] { return run_tidegate({"health"}).code == 0 || !quickstart.running(); });
            asked(quickstart);
            quickstart.signal(SIGTERM);
            CHECK(quickstart.wait(kPatience) == 0);
        };
        run("forward_auth", [](const Process& quickstart) {
            CHECK(quickstart.errors().find("auth_request /_tidegate;") != std::string::npos);
            const auto ask = [] {
                return http_get(8181, "/",
                                "X-Original-URI: /\r\nX-Original-Method: GET\r\n"
                                "X-Forwarded-For: 203.0.113.7\r\n");
            };
            for (int i = 0; i < 10; ++i) CHECK(ask().status() == 200);
            CHECK(ask().field("X-Tidegate-Status") == "429");
        });
        run("check", [](const Process&) {
            const auto ask = [] {
                return RawClient(8181).ask(post_request(
                    "/v1/check", R"({"policy":"per-user","identifiers":{"user":"alice"}})"));
            };
            for (int i = 0; i < 10; ++i) CHECK(ask().status() == 200);
            CHECK(ask().status() == 429);
        });
    });
}

}  // namespace tidegate::test::check_api_test

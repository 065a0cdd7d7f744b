// Which requests are counted, and how: tiers, lists, shadow, keys.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::policies_test {

using nlohmann::json;

namespace {

std::string header(const std::string& name, const std::string& value) {
    return name + ": " + value + "\r\n";
}

}  // namespace

TEST_CASE(
    "tiers: a user's own limits hold; unlimited is not counted; a change of tier keeps counts") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const auto users = folder.write(
        "users.yaml", "alice: {tier: pro}\nbob: {tier: internal}\neve: {tier: unheard-of}\n");
    std::string identity = kUsersFromHere;
    identity.insert(identity.rfind('}'), ", users: " + users);
    const std::string yaml =
        counted.yaml() + identity +
        one_policy(upstream,
                   "{key: [\"user|ip\"], limits: [{name: hourly, quota: 2, per: 1h}], "
                   "tiers: {pro: [{name: hourly, quota: 4, per: 1h}], internal: "
                   "unlimited}}");
    const Tidegate tidegate(yaml);
    const auto admitted = [&](const std::string& user) {
        int count = 0;
        for (int i = 0; i < 6; ++i) {
            if (tidegate
                    .get("/" + user + std::to_string(i),
                         user.empty() ? "" : header("X-User-Id", user))
                    .status() == 200)
                ++count;
        }
        return count;
    };
    CHECK(admitted("alice") == 4);
    CHECK(admitted("bob") == 6);
    CHECK(admitted("eve") == 2);
    CHECK(admitted("carol") == 2);
    CHECK(admitted("") == 2);
    CHECK(logged(tidegate, "/alice5").at("limited_by") == "p-hourly");
    CHECK(logged(tidegate, "/alice5").at("identifiers") == json::array({"user:alice"}));
    CHECK(logged(tidegate, "/bob5").at("verdict") == "unlimited");
    CHECK(logged(tidegate, "/bob5").at("store") == "");
    CHECK(logged(tidegate, "/0").at("identifiers") == json::array({"ip:127.0.0.1"}));

    // carol pays: what she has used stays used.
    folder.write("users.yaml", "carol: {tier: pro}\n");
    const auto reloaded = tidegate.reload();
    CHECK_MESSAGE(reloaded.status() == 200, reloaded.body);
    CHECK(admitted("carol") == 2);
    CHECK(admitted("alice") == 0);
}

TEST_CASE("lists: exempt clients are not counted, denied clients are refused before any charge") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted.yaml() + kUsersFromHere +
                            one_policy(upstream,
                                       "{key: [ip], limits: [1/h], exempt: [127.0.0.3, 127.0.0.4, "
                                       "\"user:healthbot\"], deny: [127.0.0.4, 127.0.1.0/24, "
                                       "\"user:mallory\"]}"));
    for (int i = 0; i < 3; ++i) {
        CHECK(tidegate.get("/exempt", "", "127.0.0.3").status() == 200);
        CHECK(tidegate.get("/bot", header("X-User-Id", "healthbot")).status() == 200);
        CHECK(tidegate.get("/both", "", "127.0.0.4").status() == 403);
        CHECK(tidegate.get("/net", "", "127.0.1.77").status() == 403);
        CHECK(tidegate.get("/mallory", header("X-User-Id", "mallory")).status() == 403);
        // A client does not become the bot by its own field.
        CHECK(tidegate.get("/liar", header("X-User-Id", "healthbot"), "127.0.0.5").status() ==
              (i == 0 ? 200 : 429));
    }
    CHECK(logged(tidegate, "/exempt").at("verdict") == "unlimited");
    const auto denied = logged(tidegate, "/mallory");
    CHECK(denied.at("verdict") == "");
    CHECK(denied.at("error") == "client: denied");
    CHECK(denied.at("store") == "");
    CHECK_SOON(decisions(tidegate, "denied") == 2);
    CHECK_SOON(decisions(tidegate, "admitted") == 1);
}

TEST_CASE("shadow: a policy in shadow decides, counts and logs, and refuses no request") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        api(upstream,
            "policies:\n"
            "  p: {key: [ip], limits: [{name: real, quota: 4, per: 1h}]}\n"
            "  trial: {key: [\"header:x-tenant\"], mode: shadow, limits: [{name: tried, quota: 2, "
            "per: 1h}], deny: [127.0.0.9]}\n"
            "routes: [{name: all, upstream: api, policies: [trial, p]}]\n"));
    const auto tenant = header("X-Tenant", "t");
    for (int i = 0; i < 6; ++i) {
        const auto answer = tidegate.get("/" + std::to_string(i), tenant);
        CHECK(answer.status() == (i < 4 ? 200 : 429));
        CHECK(answer.field("RateLimit").find("tried") == std::string::npos);
        CHECK(answer.field("RateLimit-Policy").find("tried") == std::string::npos);
        CHECK(answer.body.find("tried") == std::string::npos);
    }
    CHECK(logged(tidegate, "/1").at("shadow_limited_by") == "");
    const auto third = logged(tidegate, "/2");
    CHECK(third.at("verdict") == "admitted");
    CHECK(third.at("limited_by") == "");
    CHECK(third.at("shadow_limited_by") == "trial-tried");
    CHECK(logged(tidegate, "/5").at("limited_by") == "p-real");
    CHECK_SOON(decisions(tidegate, "shadow_admitted", "trial") == 2);
    CHECK_SOON(decisions(tidegate, "shadow_denied", "trial") == 4);
    CHECK_SOON(decisions(tidegate, "denied") == 2);
    CHECK_SOON(decisions(tidegate, "admitted") == 4);
    // Not even those that it cannot count, or would deny.
    CHECK(tidegate.get("/", "", "127.0.0.8").status() == 200);
    CHECK(tidegate.get("/", tenant + tenant, "127.0.0.8").status() == 200);
    CHECK(tidegate.get("/", tenant, "127.0.0.9").status() == 200);
}

TEST_CASE("shadow: a request that the enforced limits refuse takes nothing from it") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted.yaml() +
                            api(upstream,
                                "policies:\n  p: {key: [ip], limits: [1/h]}\n"
                                "  trial: {key: [\"constant:all\"], mode: shadow, limits: [3/h]}\n"
                                "routes: [{name: all, upstream: api, policies: [p, trial]}]\n"));
    for (int i = 0; i < 5; ++i) tidegate.get();
    CHECK(tidegate.get("/", "", "127.0.0.2").status() == 200);
    CHECK(tidegate.get("/third", "", "127.0.0.3").status() == 200);
    CHECK(tidegate.get("/fourth", "", "127.0.0.4").status() == 200);
    CHECK(logged(tidegate, "/third").at("shadow_limited_by") == "");
    CHECK(logged(tidegate, "/fourth").at("shadow_limited_by") != "");
}

TEST_CASE("keys: each key of a policy makes identifiers, each counted for itself") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() + kUsersFromHere +
        api(upstream,
            "policies:\n"
            "  joined: {key: [\"header:x-tenant+route\"], limits: [1/h]}\n"
            "  either: {key: [\"user|ip\"], limits: [1/h]}\n"
            "  asked: {key: [\"query:q\"], limits: [1/h]}\n"
            "  captured: {key: [\"path:id\"], limits: [1/h]}\n"
            "  fixed: {key: [\"constant:everybody\"], limits: [1/h]}\n"
            "  twice: {key: [\"header:x-a\", \"header:x-b\"], limits: [2/h]}\n"
            "routes:\n"
            "  - {name: one, match: {path: /one}, upstream: api, policies: [joined]}\n"
            "  - {name: two, match: {path: /two}, upstream: api, policies: [joined]}\n"
            "  - {name: either, match: {path: /either}, upstream: api, policies: [either]}\n"
            "  - {name: asked, match: {path: /asked}, upstream: api, policies: [asked]}\n"
            "  - {name: user, match: {path: \"/users/{id}\"}, upstream: api, policies: "
            "[captured]}\n"
            "  - {name: fixed, match: {path: /fixed}, upstream: api, policies: [fixed]}\n"
            "  - {name: twice, match: {path: /twice}, upstream: api, policies: [twice]}\n"));
    const auto once = [&](const std::string& path, const std::string& fields = "",
                          const std::string& from = "127.0.0.1") {
        CAPTURE(path);
        CAPTURE(fields);
        CHECK(tidegate.get(path, fields, from).status() == 200);
        CHECK(tidegate.get(path, fields, from).status() == 429);
    };
    once("/one", header("X-Tenant", "a"));
    once("/two", header("X-Tenant", "a"));
    once("/one", header("X-Tenant", "b"));
    CHECK(tidegate.get("/one", header("X-Tenant", "a"), "127.0.0.2").status() == 429);
    once("/either", header("X-User-Id", "ann"));
    once("/either", header("X-User-Id", "bob"));
    once("/either");
    once("/either", "", "127.0.0.2");
    once("/asked?q=a+b");
    CHECK(tidegate.get("/asked?x=1&q=a%20b").status() == 429);
    once("/asked?q=A%20b");
    once("/users/7");
    CHECK(tidegate.get("/users/%37").status() == 429);
    once("/users/8");
    once("/fixed");
    CHECK(tidegate.get("/fixed", "", "127.0.0.2").status() == 429);
    // Two fields of one value are two names.
    CHECK(tidegate.get("/twice", header("X-A", "v") + header("X-B", "v")).status() == 200);
    CHECK(tidegate.get("/twice", header("X-A", "v") + header("X-B", "w")).status() == 200);
    CHECK(tidegate.get("/twice", header("X-A", "v") + header("X-B", "u")).status() == 429);
    CHECK(tidegate.get("/twice", header("X-A", "u") + header("X-B", "v")).status() == 200);
    CHECK(logged(tidegate, "/twice").at("identifiers").size() == 2);
    CHECK(logged(tidegate, "/fixed").at("identifiers") == json::array({"constant:everybody"}));
}

TEST_CASE("keys: a spelling that an application could read as the counted parameter is refused") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        one_policy(upstream, "{key: [\"query:tenant_id\"], on_missing: shared, limits: [1/h]}"));
    CHECK(tidegate.get("/?tenant_id=a").status() == 200);
    for (const std::string name :
         {"tenant_id%00x", "+tenant_id", "%20tenant_id", "tenant[id", "tenant%5Bid", "tenant.id",
          "[tenant_id]", "]tenant_id", "tenant_id]", "tenant_id[]", "x=%ff&%ff"}) {
        CAPTURE(name);
        CHECK(tidegate.get("/?" + name + "=b").status() == 400);
        CHECK(tidegate.get("/?tenant_id=b&" + name + "=a").status() == 400);
    }
    CHECK(upstream.requests() == 1);
    CHECK(tidegate.get("/?tenant=a&id=a").status() == 200);
    CHECK(tidegate.get("/?tenant_id=a+").status() == 429);
}

TEST_CASE("keys: values that run into each other when they are joined stay apart") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() + one_policy(upstream, "{key: [\"header:x-a+header:x-b\"], limits: [1/h]}"));
    for (const auto& [a, b] :
         std::vector<std::pair<std::string, std::string>>{{"1+header:x-b=2", "3"},
                                                          {"1", "2+header:x-b=3"},
                                                          {"1", "2"},
                                                          {"12", ""},
                                                          {"{1}", "2"},
                                                          {"1:2", "3"},
                                                          {"1", "2:3"}}) {
        CAPTURE(a);
        const auto fields = header("X-A", a) + header("X-B", b);
        if (b.empty()) {
            CHECK(tidegate.get("/", fields).status() == 400);
            continue;
        }
        CHECK(tidegate.get("/", fields).status() == 200);
        CHECK(tidegate.get("/", fields).status() == 429);
    }
}

TEST_CASE("keys: a request without the key is skipped, counted or refused, as on_missing says") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const std::string key = "{key: [\"header:x-tenant\", ip], limits: [2/h], on_missing: ";
    const std::string alone = "{key: [\"header:x-tenant\"], limits: [2/h], on_missing: ";
    const std::string policies = "policies:\n  skip: " + key + "skip}\n  shared: " + key +
                                 "shared}\n  reject: " + key + "reject}\n  alone: " + alone +
                                 "skip}\n  together: " + alone + "shared}\n" +
                                 "  silent: {key: [\"header:x-tenant\"], limits: [2/h]}\nroutes:\n";
    std::string routes;
    for (const std::string name : {"skip", "shared", "reject", "alone", "together", "silent"})
        routes += "  - {name: " + name + ", match: {path: \"/" + name +
                  "/**\"}, upstream: api, policies: [" + name + "]}\n";
    const Tidegate tidegate(counted.yaml() + api(upstream, policies + routes));
    const auto statuses = [&](const std::string& path, const std::string& fields = "") {
        std::vector<int> seen;
        for (const std::string from : {"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3"})
            seen.push_back(tidegate.get(path, fields, from).status());
        return seen;
    };
    CHECK(statuses("/skip") == std::vector{200, 200, 200, 200});
    CHECK(tidegate.get("/skip").status() == 429);
    CHECK(statuses("/shared") == std::vector{200, 200, 429, 429});
    CHECK(statuses("/reject") == std::vector{400, 400, 400, 400});
    CHECK(statuses("/alone") == std::vector{200, 200, 200, 200});  // written so, it counts none
    CHECK(logged(tidegate, "/alone").at("verdict") == "unlimited");
    CHECK(statuses("/together") == std::vector{200, 200, 429, 429});
    CHECK(statuses("/silent") == std::vector{400, 400, 400, 400});
    const auto tenant = header("X-Tenant", "t");
    CHECK(statuses("/silent", tenant) == std::vector{200, 200, 429, 429});
    CHECK(statuses("/alone", tenant) == std::vector{200, 200, 429, 429});
    CHECK(tidegate.get("/alone", tenant + tenant).status() == 400);
    // An empty value is none; a field that is there twice, in any spelling, is refused.
    CHECK(tidegate.get("/silent", "X-Tenant:\r\n").status() == 400);
    CHECK(tidegate.get("/silent/twice", tenant + tenant).status() == 400);
    CHECK(tidegate.get("/together", tenant + header("X_Tenant", "u")).status() == 400);
    CHECK(tidegate.get("/skip", tenant + header("x-tenant", "u"), "127.0.0.7").status() == 400);
    const auto line = logged(tidegate, "/silent/twice");
    CHECK(line.at("status") == 400);
    CHECK(line.at("error") == "client: ambiguous name");
    CHECK(line.at("verdict") == "");
    CHECK(logged(tidegate, "/reject").at("error") == "client: nobody");
}

}  // namespace tidegate::test::policies_test

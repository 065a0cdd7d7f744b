// Anonymous clients beside members, routes that require a user, claims of tokens, and the other
// kinds of keys: in both stores.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::client_kinds_test {

using nlohmann::json;

namespace {

struct World {
    TemporaryFolder folder;
    std::string jwks = folder.write("keys.json", key_set({curve_key().jwk()}));
    std::string keys = folder.write("keys.yaml", api_key_file({{"key-of-bob", "bob", "internal"}}));
    Upstream upstream{ok()};

    // Tokens and API keys name users; `more` goes into `identity`.
    std::string identity(const std::string& more = "") const {
        return "identity: {user: [{jwt: {jwks: \"" + jwks +
               "\", algorithms: [ES256]}}, {api_key: {keys: \"" + keys + "\"}}]" + more + "}\n";
    }
    std::string routed(const std::string& policies, const std::string& routes) const {
        return api(upstream, "policies:\n" + policies + "routes:\n" + routes);
    }
};

// How many of `requests` are admitted; all others must be 429.
int admitted(const Tidegate& tidegate, int requests, const std::string& fields,
             const std::string& from = "127.0.0.1", const std::string& path = "/") {
    int count = 0;
    for (int i = 0; i < requests; ++i) {
        const int status = tidegate.get(path, fields, from).status();
        CHECK((status == 200 || status == 429));
        count += status == 200 ? 1 : 0;
    }
    return count;
}

int status_of(const Tidegate& tidegate, const std::string& head) {
    return tidegate.client().ask(head + "\r\n").status();
}

}  // namespace

TEST_CASE("clients: anonymous and members side by side, each with a limit of its own") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(
        counted.yaml() + world.identity() +
        world.routed("  anonymous: {key: [ip], limits: [2/h], exempt: [authenticated]}\n"
                     "  members: {key: [user], on_missing: skip, limits: [4/h]}\n",
                     "  - policies: [anonymous, members]\n"));
    const std::string alice = bearer(token_for("alice"));
    const std::string bob = line("X-Api-Key", "key-of-bob");
    CHECK(admitted(tidegate, 4, "", "127.0.0.1") == 2);
    CHECK(admitted(tidegate, 6, alice, "127.0.0.1") == 4);
    CHECK(admitted(tidegate, 2, alice, "127.0.0.2") == 0);
    CHECK(admitted(tidegate, 6, bob, "127.0.0.1") == 4);
    CHECK(admitted(tidegate, 4, "", "127.0.0.2") == 2);
    // Neither a wrong credential nor a made-up user is a way to the limit of members.
    CHECK(tidegate.get("/wrong", line("X-Api-Key", "wrong"), "127.0.0.3").status() == 401);
    CHECK(tidegate.get("/", line("X-User-Id", "alice"), "127.0.0.1").status() == 429);
    const Message member = tidegate.get("/last", alice);
    CHECK(member.field("RateLimit-Policy").find("members") != std::string::npos);
    CHECK(member.field("RateLimit-Policy").find("anonymous") == std::string::npos);
    CHECK(logged(tidegate, "/last").at("identifiers") == json::array({"user:alice"}));
}

TEST_CASE("clients: a missing user that a policy needs is 401 with the methods that would help") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(
        counted.yaml() + world.identity() +
        world.routed("  members: {key: [user], limits: [9/h]}\n  all: {key: [ip], limits: [9/h]}\n",
                     "  - {match: {path: /by-policy}, policies: [all, members]}\n"
                     "  - {match: {path: /by-route}, identity: required, policies: []}\n"
                     "  - {policies: [all]}\n"));
    for (const std::string path : {"/by-policy", "/by-route"}) {
        CAPTURE(path);
        const Message answer = tidegate.get(path);
        CHECK(answer.status() == 401);
        CHECK(answer.count("WWW-Authenticate") == 2);
        const std::string challenges = answer.field("WWW-Authenticate");
        CHECK(challenges.find("Bearer realm=\"tidegate\"") != std::string::npos);
        CHECK(challenges.find("ApiKey realm=\"tidegate\", header=\"x-api-key\"") !=
              std::string::npos);
        CHECK(challenges.find("error=") == std::string::npos);  // RFC 6750 section 3.1
        CHECK(answer.field("Content-Type") == "application/problem+json");
        CHECK(json::parse(answer.body).at("detail") ==
              "This route needs a user, and the request names none.");
        CHECK(tidegate.get(path, bearer(token_for("alice"))).status() == 200);
        CHECK(logged(tidegate, path).at("route") != "");
    }
    CHECK(tidegate.get("/open").status() == 200);
    CHECK_SOON(tidegate.metric("tidegate_request_faults_total{fault=\"client: no user\"}") == 2);
    // The refused requests took nothing: of nine, two were admitted.
    CHECK(admitted(tidegate, 12, "") == 7);
}

TEST_CASE("clients: with identity.require a route can be open, and bad credentials stay 401") {
    const World world;
    const Tidegate tidegate(
        world.identity(", require: on, on_invalid_credentials: anonymous") +
        world.routed("  all: {key: [ip], limits: [99/h]}\n",
                     "  - {match: {path: /open}, identity: optional, policies: [all]}\n"
                     "  - {policies: [all]}\n"));
    CHECK(tidegate.get("/").status() == 401);
    CHECK(tidegate.get("/", line("X-Api-Key", "wrong")).status() == 401);
    CHECK(tidegate.get("/", line("X-Api-Key", "key-of-bob")).status() == 200);
    CHECK(tidegate.get("/open").status() == 200);
    CHECK(tidegate.get("/open", line("X-Api-Key", "wrong")).status() == 200);
    CHECK(world.upstream.requests() == 3);
}

TEST_CASE("clients: tenants are counted by a claim of the token, across their users") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(
        counted.yaml() + world.identity() +
        world.routed(
            "  tenants: {key: [\"claim:https://example.com/tenant\"], limits: [3/h]}\n"
            "  plans: {key: [\"claim:plan|user\"], limits: [9/h]}\n",
            "  - {match: {path: \"/plan/**\"}, policies: [plans]}\n  - policies: [tenants]\n"));
    const auto of = [](const std::string& user, const std::string& claims) {
        return bearer(token_for(user, claims));
    };
    const std::string acme = R"(,"https://example.com/tenant":"acme")";
    const std::string alice = of("alice", acme);
    CHECK(admitted(tidegate, 2, alice) == 2);
    CHECK(admitted(tidegate, 3, of("bob", acme)) == 1);
    CHECK(admitted(tidegate, 2, alice) == 0);  // the token is remembered with its claims
    CHECK(admitted(tidegate, 2, of("carol", R"(,"https://example.com/tenant":["b","acme"])")) == 2);
    CHECK(admitted(tidegate, 2, of("dave", R"(,"https://example.com/tenant":42)")) == 2);
    CHECK(logged(tidegate, "/")
              .at("identifiers")
              .at(0)
              .get<std::string>()
              .starts_with("claim:https://example.com/tenant="));
    // Without a token, with one that lacks the claim, or with a field of its name.
    CHECK(tidegate.get("/").status() == 401);
    CHECK(tidegate.get("/lacks", of("alice", "")).status() == 400);
    CHECK(tidegate.get("/", line("X-Api-Key", "key-of-bob")).status() == 400);
    CHECK(tidegate.get("/plan/1", of("alice", R"(,"plan":"gold")")).status() == 200);
    CHECK(tidegate.get("/plan/2", of("alice", "")).status() == 200);
    CHECK(logged(tidegate, "/plan/1").at("identifiers") == json::array({"claim:plan=gold"}));
    CHECK(logged(tidegate, "/plan/2").at("identifiers") == json::array({"user:alice"}));
}

TEST_CASE("clients: inspect and reset know a claim, a host, a method and a cookie") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(
        counted.yaml() + world.identity() +
        world.routed(
            "  p: {key: [\"claim:tenant\", host, method, \"cookie:cart\"], limits: [1/h]}\n",
            "  - policies: [p]\n"));
    const std::string fields =
        bearer(token_for("alice", R"(,"tenant":"acme")")) + line("Cookie", "cart=hush");
    const auto run = [&](const std::string& command, const std::string& identifier) {
        return run_tidegate({command, identifier, "--admin",
                             "127.0.0.1:" + std::to_string(tidegate.admin_port())})
            .code;
    };
    const std::string head = "GET / HTTP/1.1\r\nHost: API.example.com:80\r\n" + fields;
    CHECK(status_of(tidegate, head) == 200);
    CHECK(status_of(tidegate, head) == 429);
    for (const std::string identifier :
         {"claim:tenant=acme", "host:api.example.com:8080", "method:HEAD", "cookie:cart=hush"}) {
        CAPTURE(identifier);
        CHECK(run("inspect", identifier) == 0);
        CHECK(status_of(tidegate, head) == 429);
        CHECK(run("reset", identifier) == 0);
    }
    CHECK(status_of(tidegate, head) == 200);
}

TEST_CASE(
    "clients: other spellings of a host, invented methods and second cookies give no new count") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(counted.yaml() +
                            world.routed("  hosts: {key: [host], limits: [2/h]}\n"
                                         "  methods: {key: [method], limits: [2/h]}\n"
                                         "  carts: {key: [\"cookie:cart\"], limits: [2/h]}\n",
                                         "  - {match: {path: /h}, policies: [hosts]}\n"
                                         "  - {match: {path: /m}, policies: [methods]}\n"
                                         "  - {match: {path: /c}, policies: [carts]}\n"));
    const auto statuses = [&](const std::vector<std::string>& heads) {
        std::vector<int> seen;
        for (const std::string& head : heads) seen.push_back(status_of(tidegate, head));
        return seen;
    };
    const std::string get_host = "GET /h HTTP/1.1\r\nHost: ";
    CHECK(statuses({get_host + "a.example\r\n", get_host + "A.Example:1\r\n",
                    get_host + "a.example.\r\n", get_host + "b.example\r\n"}) ==
          std::vector{200, 200, 429, 200});
    if (!over_http2()) CHECK(status_of(tidegate, "GET /h HTTP/1.0\r\n") == 400);
    const std::string rest = " /m HTTP/1.1\r\nHost: a\r\n";
    CHECK(statuses({"FOO" + rest, "BAR" + rest, "BAZ" + rest, "GET" + rest, "POST" + rest}) ==
          std::vector{200, 200, 429, 200, 200});
    const std::string cart = "GET /c HTTP/1.1\r\nHost: a\r\nCookie: ";
    CHECK(statuses({cart + "cart=x\r\n", cart + "b=c; cart=x\r\n", cart + "cart=\"x\"\r\n",
                    cart + "cart=x; cart=y\r\n", cart + "Cart=z\r\n", cart + "b=c\r\n"}) ==
          std::vector{200, 200, 429, 400, 400, 400});
}

TEST_CASE("clients: a tier is exempt, and `*.example.com` takes every name below it") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(
        counted.yaml() + world.identity() +
        world.routed("  p: {key: [ip], limits: [1/h], exempt: [\"tier:internal\"]}\n",
                     "  - {name: below, match: {host: \"*.example.com\"}, policies: [p]}\n"
                     "  - {name: apex, match: {host: example.com}, policies: []}\n"));
    const auto ask = [&](const std::string& host, const std::string& fields = "") {
        return status_of(tidegate, "GET / HTTP/1.1\r\nHost: " + host + "\r\n" + fields);
    };
    CHECK(ask("example.com") == 200);
    CHECK(ask("example.com") == 200);
    CHECK(ask("a.b.Example.com:8080") == 200);
    CHECK(ask("c.example.com") == 429);
    CHECK(ask("example.org") == 404);
    for (int i = 0; i < 3; ++i) CHECK(ask("c.example.com", line("X-Api-Key", "key-of-bob")) == 200);
}

TEST_CASE("clients: explain says what the proxy does with each kind of client, and why") {
    const World world;
    const std::string yaml =
        world.identity() +
        world.routed(
            "  anonymous: {key: [ip], limits: [99/h], exempt: [authenticated]}\n"
            "  members: {key: [user], on_missing: skip, limits: [99/h]}\n"
            "  tenants: {key: [\"claim:tenant\"], limits: [99/h]}\n",
            "  - {match: {path: /tenants}, policies: [tenants]}\n"
            "  - {match: {path: /known}, identity: required, policies: [members]}\n"
            "  - policies: [anonymous, members]\n");
    const std::string file = world.folder.write("explained.yaml", yaml);
    const Tidegate tidegate(yaml);
    const auto explained = [&](const std::string& path, const std::string& field) {
        std::vector<std::string> arguments{"explain", "-c", file,     "--json",
                                           "--path",  path, "--from", "127.0.0.1"};
        if (!field.empty()) arguments.insert(arguments.end(), {"--header", field});
        return json::parse(run_tidegate(arguments).output);
    };
    const std::string member = "Authorization: Bearer " + token_for("alice");
    const std::string of_acme =
        "Authorization: Bearer " + token_for("alice", R"(,"tenant":"acme")");
    const json known = explained("/", member);
    CHECK(known["policies"][0]["outcome"] == "exempt");
    CHECK(known["policies"][0]["listed_as"] == "authenticated");
    CHECK(known["policies"][1]["outcome"] == "counted");
    const json anonymous = explained("/", "");
    CHECK(anonymous["policies"][0]["outcome"] == "counted");
    CHECK(anonymous["policies"][1]["outcome"] == "skipped");
    CHECK(explained("/tenants", "")["policies"][0]["outcome"] == "no_user");
    CHECK(explained("/tenants", of_acme)["policies"][0]["keys"][0]["identifiers"] ==
          json::array({"claim:tenant=acme"}));
    CHECK(explained("/known", "")["route"]["user_needed"] == true);
    for (const std::string path : {"/", "/tenants", "/known"}) {
        for (const std::string& field : {std::string(), member, of_acme}) {
            CAPTURE(path);
            CAPTURE(field);
            const Message answer = tidegate.get(path, field.empty() ? "" : field + "\r\n");
            CHECK(explained(path, field)["result"].value("status", 200) == answer.status());
        }
    }
}

}  // namespace tidegate::test::client_kinds_test

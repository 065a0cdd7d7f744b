// Each method of identifying a user: whom it names, what it reads, and which method decides.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::identity_methods_test {

using nlohmann::json;

namespace {

// Every method at once, in the order of config/identity.yaml; each names users of its own
// namespace.
struct World {
    TemporaryFolder folder;
    std::string jwks = folder.write("keys.json", key_set({curve_key().jwk()}));
    std::string keys =
        folder.write("keys.yaml", api_key_file({{"key-of-alice", "alice"}, {"key-of-bob", "bob"}}));
    std::string htpasswd = folder.write("users.htpasswd", kPasswords);
    Upstream upstream{ok()};

    std::string jwt(const std::string& more = "") const {
        return "{jwt: {jwks: \"" + jwks + "\", algorithms: [ES256]" + more + "}}";
    }
    std::string api_key(const std::string& more = "") const {
        return "{api_key: {keys: \"" + keys + "\"" + more + "}}";
    }
    std::string basic_users(const std::string& more = "") const {
        return "{basic: {htpasswd: \"" + htpasswd + "\"" + more + "}}";
    }
    std::string with(const std::string& methods, const std::string& more = "") const {
        return identified(upstream, "user: [" + methods + "]" + more);
    }
};

// What the request of `path` was counted by.
json identifiers(const Tidegate& tidegate, const std::string& path) {
    return logged(tidegate, path).at("identifiers");
}

const std::string kHere = ", client_ip: {trusted_proxies: [127.0.0.1]}";

}  // namespace

TEST_CASE("identity: each method names its user, to the upstream and to what is counted") {
    const World world;
    const Tidegate tidegate(
        world.with(world.jwt(", namespace: idp") + "," + world.api_key(", namespace: key") + "," +
                       world.basic_users(", namespace: staff") + ", {header: {name: x-user-id}}",
                   kHere));
    const auto names = [&](const std::string& path, const std::string& fields) {
        CHECK(tidegate.get(path, fields).status() == 200);
        CHECK(identifiers(tidegate, path) ==
              json({"ip:127.0.0.1", "user:" + last_user(world.upstream)}));
        return last_user(world.upstream);
    };
    CHECK(names("/token", bearer(token_for("alice"))) == "idp:alice");
    CHECK(names("/key", line("X-Api-Key", "key-of-alice")) == "key:alice");
    CHECK(names("/password", basic("alice", "wonderland")) == "staff:alice");
    CHECK(names("/password-sha", basic("carol", "looking-glass")) == "staff:carol");
    CHECK(names("/header", line("X-User-Id", "alice")) == "alice");
    tidegate.get("/nobody");
    CHECK(identifiers(tidegate, "/nobody") == json({"ip:127.0.0.1"}));
    CHECK(last_user(world.upstream) == "nobody");
}

TEST_CASE("identity: the first method that finds a credential decides, not the order of fields") {
    const World world;
    const std::string password = basic("bob", "wonderland");
    const std::string key = line("X-Api-Key", "key-of-alice");
    SUBCASE("keys before passwords") {
        const Tidegate tidegate(world.with(world.api_key() + "," + world.basic_users()));
        CHECK(tidegate.get("/", password + key).status() == 200);
        CHECK(last_user(world.upstream) == "alice");
    }
    SUBCASE("passwords before keys") {
        const Tidegate tidegate(world.with(world.basic_users() + "," + world.api_key()));
        CHECK(tidegate.get("/", key + password).status() == 200);
        CHECK(last_user(world.upstream) == "bob");
    }
}

TEST_CASE("identity: an invalid credential ends the search, whatever would come below") {
    const World world;
    const Tidegate tidegate(world.with(
        world.api_key() + "," + world.basic_users() + ", {header: {name: x-user-id}}", kHere));
    const std::string good = basic("bob", "wonderland") + line("X-User-Id", "carol");
    CHECK(tidegate.get("/", line("X-Api-Key", "key-of-nobody") + good).status() == 401);
    CHECK(tidegate.get("/", basic("bob", "wrong") + line("X-User-Id", "carol")).status() == 401);
    CHECK(world.upstream.requests() == 0);
    // An empty field is none.
    CHECK(tidegate.get("/", line("X-Api-Key", "") + good).status() == 200);
    CHECK(last_user(world.upstream) == "bob");
}

TEST_CASE("identity: another scheme is no credential of a method, and goes on to the next") {
    const World world;
    const Tidegate tidegate(world.with(world.jwt() + "," + world.basic_users()));
    CHECK(tidegate.get("/", line("Authorization", "Digest username=alice")).status() == 200);
    CHECK(last_user(world.upstream) == "nobody");
    CHECK(world.upstream.last().field("Authorization") == "Digest username=alice");
    CHECK(tidegate.get("/", line("Authorization", "Bearers x")).status() == 200);
    CHECK(last_user(world.upstream) == "nobody");
    // Schemes are compared without case (RFC 9110 section 11.1).
    CHECK(tidegate.get("/", line("Authorization", "bAsIc " + base64("bob:wonderland"))).status() ==
          200);
    CHECK(last_user(world.upstream) == "bob");
    CHECK(tidegate.get("/", line("AUTHORIZATION", "bearer " + token_for("alice"))).status() == 200);
    CHECK(last_user(world.upstream) == "alice");
}

TEST_CASE("identity: two Authorization fields name no user, and the request is refused") {
    const World world;
    const std::string alice = bearer(token_for("alice"));
    const std::string bob = basic("bob", "wonderland");
    std::string mode;
    SUBCASE("reject") {
        mode = ", on_invalid_credentials: reject";
    }
    SUBCASE("anonymous") {
        mode = ", on_invalid_credentials: anonymous";
    }
    const Tidegate tidegate(
        world.with(world.jwt() + "," + world.basic_users() + "," + world.api_key(), mode));
    for (const auto& fields :
         {alice + alice, alice + bob, bob + alice, line("Authorization", "Digest x") + bob,
          line("authorization", "") + bob,
          line("X-Api-Key", "key-of-bob") + line("x-api-key", "key-of-bob")}) {
        const Message answer = tidegate.get("/", fields);
        CHECK_MESSAGE(answer.status() == 400, fields);
        CHECK(answer.body.find("names its user twice") != std::string::npos);
    }
    CHECK(world.upstream.requests() == 0);
}

TEST_CASE("identity: no method without a namespace names a user of another method's") {
    const World world;
    const Tidegate tidegate(world.with(
        world.jwt() + "," + world.api_key(", namespace: key") + ", {header: {name: x-user-id}}",
        kHere));
    CHECK(tidegate.get("/", line("X-Api-Key", "key-of-bob")).status() == 200);
    CHECK(last_user(world.upstream) == "key:bob");
    const int before = world.upstream.requests();
    const Message answer = tidegate.get("/token", bearer(token_for("key:bob")));
    CHECK(answer.status() == 401);
    CHECK(answer.body.find("namespace") == std::string::npos);
    CHECK(logged(tidegate, "/token").at("error") ==
          "credential: user of another method's namespace");
    CHECK(tidegate.get("/", line("X-User-Id", "key:bob")).status() == 401);
    CHECK(world.upstream.requests() == before);
    // What only looks a little like it is a name like others.
    CHECK(tidegate.get("/", bearer(token_for("keys:bob"))).status() == 200);
    CHECK(last_user(world.upstream) == "keys:bob");
}

TEST_CASE("identity: a name that could be read as another's is refused") {
    const World world;
    const Tidegate tidegate(world.with(world.jwt()));
    for (const char* name : {"", "al\\nice", "al\\rice", "al\\u0000ice", "al\\u007fice",
                             "al\\u0085ice", " alice", "alice ", "alice\\t", "\\ud800"}) {
        CAPTURE(name);
        CHECK(tidegate.get("/", bearer(token_for(name))).status() == 401);
    }
    CHECK(tidegate.get("/", bearer(token_for(std::string(257, 'a')))).status() == 401);
    CHECK(world.upstream.requests() == 0);
    CHECK(tidegate.get("/", bearer(token_for("al ice"))).status() == 200);
    CHECK(last_user(world.upstream) == "al ice");
    CHECK(tidegate.get("/long", bearer(token_for(std::string(256, 'a')))).status() == 200);
    CHECK(last_user(world.upstream) == std::string(256, 'a'));
    const auto counted = identifiers(tidegate, "/long").at(1).get<std::string>();
    CHECK(counted.size() <= 128);
    CHECK(counted.find('#') != std::string::npos);
}

TEST_CASE("identity: each user is counted for itself, wherever they come from") {
    const World world;
    const Tidegate tidegate(identified(world.upstream, "user: [" + world.api_key() + "]",
                                       "key: [user], limits: [2/h]"));
    const std::string alice = line("X-Api-Key", "key-of-alice");
    const std::string bob = line("X-Api-Key", "key-of-bob");
    CHECK(tidegate.get("/", alice).status() == 200);
    CHECK(tidegate.get("/", alice, "127.0.0.2").status() == 200);
    CHECK(tidegate.get("/", alice, "127.0.0.3").status() == 429);
    CHECK(tidegate.get("/", bob).status() == 200);
    CHECK(tidegate.get("/").status() == 401);  // leaving it out is no way around the limit
}

TEST_CASE("identity: a trusted header is believed from trusted peers alone") {
    const World world;
    const std::string methods = "{header: {name: x-user-id, tier_header: x-user-tier}}";
    const std::string alice = line("X-User-Id", "alice") + line("X-User-Tier", "pro");
    SUBCASE("from one") {
        const Tidegate tidegate(world.with(methods, kHere));
        CHECK(tidegate.get("/", alice).status() == 200);
        CHECK(last_user(world.upstream) == "alice");
        CHECK(world.upstream.last().field("x-auth-tier") == "pro");
        CHECK(world.upstream.last().field("x-user-id") == "alice");
        // Two different values: neither is the user's.
        CHECK(tidegate.get("/", alice + line("X-User-Id", "bob")).status() == 200);
        CHECK(last_user(world.upstream) == "nobody");
        CHECK(world.upstream.last().count("x-user-id") == 0);
        CHECK(tidegate.get("/", line("X_User_Id", "alice")).status() == 200);
        CHECK(last_user(world.upstream) == "nobody");
        CHECK(world.upstream.last().count("x_user_id") == 0);
    }
    SUBCASE("from anybody else") {
        const Tidegate tidegate(world.with(methods, kHere));
        CHECK(tidegate.get("/far", alice, "127.0.0.2").status() == 200);
        CHECK(last_user(world.upstream) == "nobody");
        CHECK(world.upstream.last().count("x-user-id") == 0);
        CHECK(world.upstream.last().count("x-user-tier") == 0);
        CHECK(identifiers(tidegate, "/far") == json({"ip:127.0.0.2"}));
    }
}

TEST_CASE("identity: a cookie counts by its hash, and each value is another user") {
    const World world;
    const Tidegate tidegate(world.with("{cookie: {name: session}}"));
    const auto user_of = [&](const std::string& path, const std::string& fields) {
        CHECK(tidegate.get(path, fields).status() == 200);
        CHECK(identifiers(tidegate, path).at(1) == "user:" + last_user(world.upstream));
        return last_user(world.upstream);
    };
    const auto one = user_of("/one", line("Cookie", "a=1; session=first-secret; b=2"));
    // echo -n first-secret | sha256sum
    CHECK(one == "e0a5091e7f566a51018100473bf5078fe614e6dde73a7592c1161ecd6ec3826a");
    CHECK(user_of("/quoted", line("Cookie", "session=\"first-secret\"")) == one);
    CHECK(user_of("/split", line("Cookie", "a=1") + line("Cookie", "session=first-secret")) == one);
    CHECK(user_of("/two", line("Cookie", "session=other-secret")) != one);
    // Some servers ignore the case of a cookie's name.
    CHECK(tidegate.get("/", line("Cookie", "Session=first-secret")).status() == 401);
    for (const char* none : {"xsession=first-secret", "session=", "a=1"}) {
        CHECK(tidegate.get("/", line("Cookie", none)).status() == 200);
        CHECK(last_user(world.upstream) == "nobody");
    }
    const int before = world.upstream.requests();
    for (const char* bad : {"session=one; session=two", "session=a b", "session=a,b", "session=\"a",
                            "session=a\\b"}) {
        CHECK_MESSAGE(tidegate.get("/", line("Cookie", bad)).status() == 401, bad);
    }
    CHECK(world.upstream.requests() == before);
}

TEST_CASE("identity: on one connection each request is identified by itself") {
    const World world;
    const Tidegate tidegate(world.with(world.jwt() + "," + world.api_key() + "," +
                                       world.basic_users() + ", {cookie: {name: session}}"));
    const std::vector<std::pair<std::string, std::string>> senders{
        {line("X-Api-Key", "key-of-alice"), "alice"}, {"", "nobody"},
        {basic("carol", "looking-glass"), "carol"},   {line("Authorization", "Digest x"), "nobody"},
        {bearer(token_for("dave")), "dave"},          {"", "nobody"},
        {line("X-Api-Key", "key-of-bob"), "bob"},
    };
    auto client = tidegate.client();
    std::string together;
    for (int round = 0; round < 3; ++round) {
        for (const auto& [fields, user] : senders) {
            CHECK(client.get("/", fields).status() == 200);
            CHECK(last_user(world.upstream) == user);
            together += get_request("/", fields);
        }
    }
    if (over_http2()) return;  // where requests have no order
    const auto before = world.upstream.seen().size();
    client.send(together);
    for (std::size_t i = 0; i < 3 * senders.size(); ++i) CHECK(client.response().status() == 200);
    const auto seen = world.upstream.seen();
    for (std::size_t i = before; i < seen.size(); ++i) {
        const auto& user = senders[(i - before) % senders.size()].second;
        CHECK(seen[i].field("x-auth-user") == (user == "nobody" ? "" : user));
    }
}

TEST_CASE("identity: a refused request leaves nothing behind for the next of its connection") {
    const World world;
    const Tidegate tidegate(
        world.with(world.api_key() + "," + world.basic_users(), ", failed_credentials: 2/h"));
    auto client = tidegate.client();
    const std::string alice = line("X-Api-Key", "key-of-alice");
    for (const int status : {401, 401, 429, 429}) {
        CHECK(client.get("/", basic("alice", "wrong")).status() == status);
        const Message anonymous = client.get("/");
        CHECK(anonymous.status() == 200);
        CHECK(anonymous.field("RateLimit-Policy").find("failed") == std::string::npos);
        CHECK(last_user(world.upstream) == "nobody");
        CHECK(client.get("/", alice).status() == 200);
        CHECK(last_user(world.upstream) == "alice");
    }
}

TEST_CASE("identity: lists match only users with a valid credential") {
    const World world;
    const Tidegate tidegate(identified(
        world.upstream, "user: [" + world.api_key(", namespace: key") + "]",
        "key: [ip], limits: [1/h], exempt: [\"user:key:alice\"], deny: [\"user:key:bob\"]"));
    CHECK(tidegate.get("/").status() == 200);
    CHECK(tidegate.get("/").status() == 429);
    CHECK(tidegate.get("/", line("X-Auth-User", "key:alice")).status() == 429);
    CHECK(tidegate.get("/", line("X-Api-Key", "key-of-alice")).status() == 200);
    CHECK(tidegate.get("/", line("X-Api-Key", "key-of-bob"), "127.0.0.2").status() == 403);
    CHECK(tidegate.get("/", line("X-Api-Key", "key-of-none"), "127.0.0.2").status() == 401);
}

}  // namespace tidegate::test::identity_methods_test

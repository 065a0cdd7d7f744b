// The proxy stops clients that guess credentials, exactly and early, and no others.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::identity_guesses_test {

namespace {

// All methods whose credentials can be wrong. Five wrong ones an hour.
struct World {
    TemporaryFolder folder;
    std::string jwks = folder.write("keys.json", key_set({curve_key().jwk()}));
    std::string keys = folder.write("keys.yaml", api_key_file({{"right", "alice"}}));
    std::string htpasswd = folder.write("users.htpasswd", kPasswords);
    Upstream upstream{ok()};

    std::string with(const std::string& more = "", const std::string& failed = "5/h") const {
        return identified(upstream, "failed_credentials: " + failed + ", user: [{jwt: {jwks: \"" +
                                        jwks + "\", algorithms: [ES256]}}, {api_key: {keys: \"" +
                                        keys + "\"}}, {basic: {htpasswd: \"" + htpasswd + "\"}}]" +
                                        more);
    }
};

struct Kind {
    std::string wrong;
    std::string right;
};

std::vector<Kind> every_kind() {
    return {
        {line("X-Api-Key", "wrong"), line("X-Api-Key", "right")},
        {basic("alice", "wrong"), basic("alice", "wonderland")},
        {basic("mallory", "wonderland"), basic("bob", "wonderland")},
        {bearer(token(other_key(), "ES256", claims("alice"))), bearer(token_for("alice"))},
        {line("Authorization", "Basic !"), basic("carol", "looking-glass")},
    };
}

}  // namespace

TEST_CASE("guesses: those up to the limit get 401, and the next one 429") {
    const CountedIn counted = either_store();
    const World world;
    for (const Kind& kind : every_kind()) {
        CAPTURE(kind.wrong);
        const Tidegate tidegate(counted.yaml() + world.with());
        for (int i = 0; i < 5; ++i) CHECK(tidegate.get("/", kind.wrong).status() == 401);
        for (int i = 0; i < 3; ++i) {
            const Message answer = tidegate.get("/refused", kind.wrong);
            CHECK(answer.status() == 429);
            CHECK(std::stoi(answer.field("Retry-After")) > 3000);
            CHECK(!answer.has("WWW-Authenticate"));
        }
        const auto limit = logged(tidegate, "/refused").at("limited_by").get<std::string>();
        CHECK(limit == "failed_credentials-1h");
        CHECK_SOON(decisions(tidegate, "denied", "failed_credentials") == 3);
        CHECK(world.upstream.requests() == 0);
        // Other addresses are not affected, nor are requests without a credential.
        CHECK(tidegate.get("/", kind.wrong, "127.0.0.2").status() == 401);
        if (counted.redis) counted.redis->command({"FLUSHALL"});
    }
}

TEST_CASE("guesses: an address over a limit is told what is true, also by a remembered denial") {
    const CountedIn counted = counted_in_redis();
    const World world;
    const Tidegate tidegate(
        counted.yaml() + "threads: 1\nidentity: {user: [{basic: {htpasswd: \"" + world.htpasswd +
        "\"}}]}\n" +
        api(world.upstream,
            "policies: {few: {key: [ip], limits: [1/h]}, many: {key: [ip], limits: [100/h]}}\n"
            "routes:\n"
            "  - {name: one, match: {path: /one}, upstream: api, policies: [few]}\n"
            "  - {name: both, match: {path: /both}, upstream: api, policies: [few, many]}\n"));
    CHECK(tidegate.get("/one").status() == 200);
    for (int i = 0; i < 3; ++i) {
        const Message refused = tidegate.get("/both", basic("alice", "wrong"));
        CHECK(refused.status() == 429);
        const std::string told = refused.field("RateLimit");
        CAPTURE(told);
        CHECK(told.starts_with("\"few-1h\";r=0;t=3"));
        // Nothing was taken there, as the look says; the remembered denial cannot know.
        const bool has_other = told.find("\"many-1h\";r=100;t=3600") != std::string::npos;
        CHECK(has_other == (i == 0));
        CHECK(told.find("t=9223") == std::string::npos);
    }
}

TEST_CASE("guesses: at once, no more are tried than the limit allows") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(counted.yaml() + world.with());
    int address = 1;
    for (const Kind& kind : every_kind()) {
        CAPTURE(kind.wrong);
        const std::string from = "127.0.0." + std::to_string(++address);
        CHECK(hammer({tidegate.port()}, 20, 55, kind.wrong, from) == Statuses{{401, 5}, {429, 50}});
    }
    CHECK(world.upstream.requests() == 0);
    for (const Kind& kind : every_kind()) CHECK(tidegate.get("/", kind.right).status() == 200);
    CHECK(tidegate.get("/", "", "127.0.0.2").status() == 200);
}

TEST_CASE("guesses: two proxies with one Redis count them together") {
    const CountedIn counted = counted_in_redis();
    const World world;
    const Tidegate first(counted.yaml() + world.with());
    const Tidegate second(counted.yaml() + world.with());
    CHECK(hammer({first.port(), second.port()}, 20, 55, line("X-Api-Key", "wrong")) ==
          Statuses{{401, 5}, {429, 50}});
    CHECK(first.get("/", basic("alice", "wonderland")).status() == 429);
    CHECK(second.get("/", basic("alice", "wonderland")).status() == 429);
}

TEST_CASE("guesses: they are counted without Redis, too") {
    CountedIn counted = counted_in_redis();
    const World world;
    const Tidegate tidegate(counted.yaml() + "replicas: 1\n" + "on_store_failure: allow\n" +
                            world.with());
    CHECK(tidegate.get("/", basic("alice", "wrong")).status() == 401);
    counted.redis->stop();
    CHECK(hammer({tidegate.port()}, 10, 50, basic("alice", "wrong")) ==
          Statuses{{401, 5}, {429, 45}});
}

TEST_CASE("guesses: right credentials use up nothing") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(counted.yaml() + world.with());
    auto client = tidegate.client();
    for (int i = 0; i < 20; ++i) {
        CHECK(client.get("/", bearer(token_for("user-" + std::to_string(i)))).status() == 200);
        CHECK(client.get("/", line("X-Api-Key", "right")).status() == 200);
    }
    for (const char* user : {"alice", "bob", "alice"})
        CHECK(client.get("/", basic(user, "wonderland")).status() == 200);
    for (int i = 0; i < 5; ++i) CHECK(client.get("/", basic("alice", "wrong")).status() == 401);
    CHECK(client.get("/", basic("alice", "wrong")).status() == 429);
}

TEST_CASE("guesses: the same right credential many times at once counts as none") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(counted.yaml() + world.with());
    for (const std::string& right : {basic("alice", "wonderland"), bearer(token_for("alice"))}) {
        CHECK(hammer({tidegate.port()}, 40, 40, right) == Statuses{{200, 40}});
    }
}

TEST_CASE(
    "guesses: a token that a known key signed, or that names an unknown key, counts as none") {
    const World world;
    const Tidegate tidegate(world.with());
    const auto ended = std::chrono::hours(-1);
    for (int i = 0; i < 8; ++i) {
        CHECK(tidegate.get("/", bearer(token_for("alice", "", ended))).status() == 401);
        CHECK(tidegate.get("/", bearer(token_for(" alice"))).status() == 401);
    }
    CHECK(tidegate.get("/", bearer(token_for("alice"))).status() == 200);
}

TEST_CASE("guesses: a client that a policy denies is refused before its credential is checked") {
    const World world;
    const Tidegate tidegate(identified(
        world.upstream,
        "failed_credentials: 5/h, user: [{basic: {htpasswd: \"" + world.htpasswd + "\"}}]",
        "key: [ip], limits: [1000/h], deny: [127.0.0.2]"));
    for (int i = 0; i < 8; ++i) {
        CHECK(tidegate.get("/", basic("alice", "wrong"), "127.0.0.2").status() == 403);
    }
    CHECK(decisions(tidegate, "admitted", "failed_credentials") == 0);
}

TEST_CASE("guesses: wrong credentials between right ones are still counted") {
    const World world;
    const Tidegate tidegate(world.with());
    const std::string wrong = basic("alice", "wrong");
    for (int i = 0; i < 5; ++i) {
        CHECK(tidegate.get("/", bearer(token_for("user-" + std::to_string(i)))).status() == 200);
        CHECK(tidegate.get("/", wrong).status() == 401);
    }
    CHECK(tidegate.get("/", wrong).status() == 429);
}

TEST_CASE(
    "guesses: an address over the limit may use known credentials, and those that are no guess") {
    const World world;
    // What one thread has found out, the others know.
    const Tidegate tidegate("threads: 4\n" + world.with());
    const std::string known_token = bearer(token_for("alice"));
    const std::string known_login = basic("bob", "wonderland");
    CHECK(tidegate.get("/", known_token).status() == 200);
    CHECK(tidegate.get("/", known_login).status() == 200);
    CHECK(hammer({tidegate.port()}, 5, 6, line("X-Api-Key", "wrong")) ==
          Statuses{{401, 5}, {429, 1}});
    for (int i = 0; i < 12; ++i) {
        CHECK(tidegate.get("/", known_token).status() == 200);
        CHECK(last_user(world.upstream) == "alice");
        CHECK(tidegate.get("/", known_login).status() == 200);
        CHECK(last_user(world.upstream) == "bob");
    }
    CHECK(tidegate.get("/", line("X-Api-Key", "right")).status() == 200);
    CHECK(tidegate.get("/").status() == 200);
    // The proxy does not check whether these are right.
    CHECK(tidegate.get("/", bearer(token_for("carol"))).status() == 429);
    CHECK(tidegate.get("/", basic("carol", "looking-glass")).status() == 429);
}

TEST_CASE("guesses: are counted by the client's address, not by that of the proxy in front") {
    const World world;
    const Tidegate tidegate(world.with(", client_ip: {trusted_proxies: [127.0.0.1]}"));
    const auto from = [](const std::string& address) {
        return line("X-Forwarded-For", address) + line("X-Api-Key", "wrong");
    };
    for (int i = 0; i < 5; ++i) CHECK(tidegate.get("/", from("198.51.100.1")).status() == 401);
    CHECK(tidegate.get("/", from("198.51.100.1")).status() == 429);
    CHECK(tidegate.get("/", from("203.0.113.9, 198.51.100.1")).status() == 429);
    CHECK(tidegate.get("/", from("198.51.100.2")).status() == 401);
    // Of IPv6 a network is one client.
    for (int i = 1; i <= 5; ++i) {
        CHECK(tidegate.get("/", from("2001:db8::" + std::to_string(i))).status() == 401);
    }
    CHECK(tidegate.get("/", from("2001:db8::6")).status() == 429);
    CHECK(tidegate.get("/", from("2001:db8:0:1::6")).status() == 401);
    // A client that is not trusted does not choose its address.
    for (int i = 1; i <= 5; ++i) {
        CHECK(tidegate.get("/", from("192.0.2." + std::to_string(i)), "127.0.0.2").status() == 401);
    }
    CHECK(tidegate.get("/", from("192.0.2.6"), "127.0.0.2").status() == 429);
}

TEST_CASE("guesses: hanging up before the answer is no way around") {
    const World world;
    world.folder.write("users.htpasswd", kSlowPasswords);
    const Tidegate tidegate(world.with());
    for (int i = 1; i <= 5; ++i) {
        auto client = tidegate.client();
        client.send(get_request("/left", basic("slow", "guess-" + std::to_string(i))));
        await("the guess",
              [&] { return decisions(tidegate, "admitted", "failed_credentials") == i; });
        client.reset();
    }
    CHECK(tidegate.get("/", basic("slow", "wrong")).status() == 429);
    // No guess is given back when its hash is done.
    await("the hashes", [&] { return tidegate.access_log(0).size() == 6; });
    CHECK(tidegate.get("/", basic("slow", "wrong")).status() == 429);
}

TEST_CASE("guesses: invalid credentials that make a request anonymous are counted, too") {
    const World world;
    const Tidegate tidegate(world.with(", on_invalid_credentials: anonymous"));
    const std::string wrong = basic("alice", "wrong");
    CHECK(hammer({tidegate.port()}, 10, 30, wrong) == Statuses{{200, 5}, {429, 25}});
    CHECK(tidegate.get("/").status() == 200);
}

TEST_CASE("guesses: several limits hold at once") {
    const World world;
    const Tidegate tidegate(world.with("", "[5/h, {name: daily, quota: 3, per: 1day}]"));
    CHECK(hammer({tidegate.port()}, 10, 30, basic("alice", "wrong")) ==
          Statuses{{401, 3}, {429, 27}});
    const Message answer = tidegate.get("/refused", basic("alice", "wrong"));
    CHECK(std::stoi(answer.field("Retry-After")) > 3600);
    CHECK(logged(tidegate, "/refused").at("limited_by") == "failed_credentials-daily");
}

TEST_CASE("guesses: each algorithm that limits them is exact") {
    const CountedIn counted = either_store();
    const World world;
    for (const char* limit :
         {"{quota: 5, per: 1h, algorithm: fixed_window}", "{quota: 5, per: 1h, algorithm: gcra}",
          "{quota: 5, per: 1h, algorithm: sliding_log}"}) {
        CAPTURE(limit);
        const Tidegate tidegate(counted.yaml() + world.with("", limit));
        for (int i = 0; i < 20; ++i)
            CHECK(tidegate.get("/", bearer(token_for("user-" + std::to_string(i)))).status() ==
                  200);
        CHECK(hammer({tidegate.port()}, 20, 30, basic("alice", "wrong")) ==
              Statuses{{401, 5}, {429, 25}});
        if (counted.redis) counted.redis->command({"FLUSHALL"});
    }
}

}  // namespace tidegate::test::identity_guesses_test

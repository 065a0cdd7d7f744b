// JSON Web Tokens through the built program: where they are found, what they are signed with, how
// long they are accepted, and the attacks on them.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::identity_token_test {

using namespace std::chrono_literals;

namespace {

std::string keys_of_all_kinds() {
    return key_set({curve_key().jwk(R"("kid":"curve",)"), rsa_key().jwk(R"("kid":"rsa",)"),
                    secret_key().jwk(R"("kid":"secret",)")});
}

struct World {
    TemporaryFolder folder;
    std::string jwks = folder.write("keys.json", keys_of_all_kinds());
    Upstream upstream{ok()};

    std::string with(const std::string& method, const std::string& more = "") const {
        return identified(upstream,
                          "user: [{jwt: {jwks: \"" + jwks + "\", " + method + "}}]" + more);
    }
};

const std::string kAnyAlgorithm = "algorithms: [ES256, RS256, PS256, HS256]";

std::string with_head(const SigningKey& key, const std::string& algorithm,
                      const std::string& more) {
    return token_of(key, algorithm, R"({"alg":")" + algorithm + "\"" + more + "}",
                    claims("mallory"));
}

}  // namespace

TEST_CASE("tokens: every kind of key and signature is accepted") {
    const World world;
    const Tidegate tidegate(world.with(kAnyAlgorithm));
    const auto user_of = [&](const std::string& text) {
        const int status = tidegate.get("/", bearer(text)).status();
        return status == 200 ? last_user(world.upstream) : std::to_string(status);
    };
    CHECK(user_of(token(curve_key(), "ES256", claims("curve"))) == "curve");
    CHECK(user_of(token(rsa_key(), "RS256", claims("rsa"))) == "rsa");
    CHECK(user_of(token(rsa_key(), "PS256", claims("pss"))) == "pss");
    CHECK(user_of(token(secret_key(), "HS256", claims("secret"))) == "secret");
    CHECK(user_of(token(rsa_key(), "RS512", claims("not configured"))) == "401");
    CHECK(user_of(token(other_key(), "ES256", claims("not ours"))) == "401");
    CHECK(world.upstream.requests() == 4);
}

TEST_CASE("tokens: public keys as PEM and a shared secret check tokens, with any kid") {
    const TemporaryFolder folder;
    const Upstream upstream(ok());
    const std::string curve = folder.write("curve.pem", curve_key().public_pem());
    const std::string rsa = folder.write("rsa.pem", rsa_key().public_pem());
    const std::string bytes(32, 'k');
    const Tidegate tidegate(
        identified(upstream, "user: [{jwt: {public_key: [\"" + curve + "\", \"" + rsa +
                                 "\"]}}, {jwt: {header: x-token, secret: \"file:" +
                                 folder.write("secret", bytes + "\n") +
                                 "\", namespace: own}}, {jwt: {header: x-other, secret: "
                                 "\"${JWT_SECRET}\", namespace: env}}]"),
        "", {.environment = {"JWT_SECRET=" + bytes}});
    const auto user_of = [&](const std::string& fields) {
        const int status = tidegate.get("/", fields).status();
        return status == 200 ? last_user(upstream) : std::to_string(status);
    };
    const auto named = [](const SigningKey& key, const std::string& algorithm) {
        return token_of(key, algorithm, R"({"kid":"2026-a","alg":")" + algorithm + "\"}",
                        claims("alice"));
    };
    CHECK(user_of(bearer(named(curve_key(), "ES256"))) == "alice");
    CHECK(user_of(bearer(named(rsa_key(), "RS256"))) == "alice");
    CHECK(user_of(bearer(token(rsa_key(), "RS256", claims("bob")))) == "bob");
    CHECK(user_of(bearer(named(rsa_key(), "PS256"))) == "401");  // not one of the usual ones
    CHECK(user_of(bearer(named(other_key(), "ES256"))) == "401");
    const SigningKey secret = SigningKey::secret(bytes);
    CHECK(user_of(line("X-Token", named(secret, "HS256"))) == "own:alice");
    CHECK(user_of(line("X-Other", named(secret, "HS256"))) == "env:alice");
    CHECK(user_of(line("X-Token", named(secret, "HS384"))) == "401");
    // The public key is no secret, in either method.
    for (const SigningKey* key : {&curve_key(), &rsa_key()}) {
        const SigningKey forging = SigningKey::secret(key->public_pem());
        CHECK(user_of(bearer(named(forging, "HS256"))) == "401");
        CHECK(user_of(line("X-Token", named(forging, "HS256"))) == "401");
    }
}

TEST_CASE("tokens: nested claims name the user, the tier and what is counted") {
    const World world;
    const Tidegate tidegate(
        identified(world.upstream,
                   "user: [{jwt: {jwks: \"" + world.jwks +
                       "\", algorithms: [ES256], claim: /user/id, tier_claim: "
                       "/app_metadata/plan}}]",
                   "key: [\"claim:/app_metadata/org\"], limits: [2/h], tiers: {pro: [3/h]}"));
    const auto with = [](const std::string& more) {
        return bearer(token_for("sub", R"(,"user":{"id":"alice"},"app_metadata":{)" + more + "}"));
    };
    CHECK(tidegate.get("/", with(R"("plan":"pro","org":"acme")")).status() == 200);
    CHECK(last_user(world.upstream) == "alice");
    CHECK(world.upstream.last().field("x-auth-tier") == "pro");
    for (const int status : {200, 200, 429}) {
        CHECK(tidegate.get("/", with(R"("plan":"pro","org":"acme")")).status() == status);
    }
    CHECK(tidegate.get("/", with(R"("org":7)")).status() == 200);
    CHECK(tidegate.get("/", bearer(token_for("sub"))).status() == 401);
    // Threads write their lines at times of their own.
    const auto lines = tidegate.access_log(6);
    CHECK(std::any_of(lines.begin(), lines.end(), [](const auto& line) {
        return line.dump().find("claim:/app_metadata/org") != std::string::npos;
    }));
}

TEST_CASE("tokens: a field of its own holds the token alone") {
    const World world;
    const Tidegate tidegate(world.with("algorithms: [ES256], header: X-Token"));
    CHECK(tidegate.get("/", line("x-token", token_for("alice"))).status() == 200);
    CHECK(last_user(world.upstream) == "alice");
    CHECK(tidegate.get("/", line("X-Token", "Bearer " + token_for("alice"))).status() == 401);
    CHECK(tidegate.get("/", bearer(token_for("alice"))).status() == 200);
    CHECK(last_user(world.upstream) == "nobody");
}

TEST_CASE("tokens: a token is found in a cookie among others") {
    const World world;
    const Tidegate tidegate(world.with("algorithms: [ES256], cookie: id"));
    const std::string alice = token_for("alice");
    CHECK(tidegate.get("/", line("Cookie", "theme=dark; id=" + alice)).status() == 200);
    CHECK(last_user(world.upstream) == "alice");
    CHECK(tidegate.get("/", line("Cookie", "id=" + alice + "x")).status() == 401);
    CHECK(tidegate.get("/", line("Cookie", "id=" + alice + "; id=" + token_for("bob"))).status() ==
          401);
    CHECK(tidegate.get("/", line("Cookie", "ID=" + alice)).status() == 401);
    CHECK(tidegate.get("/", bearer(alice)).status() == 200);
    CHECK(last_user(world.upstream) == "nobody");
}

TEST_CASE("tokens: issuer and audience are checked, and the configured claim names the user") {
    const World world;
    const Tidegate tidegate(world.with(
        "algorithms: [ES256], issuer: https://idp.example, audience: [api, web], claim: email"));
    const auto status_of = [&](const std::string& more) {
        return tidegate.get("/", bearer(token_for("x", more))).status();
    };
    const std::string good = R"(,"iss":"https://idp.example","email":"alice@example.com")";
    CHECK(status_of(good + R"(,"aud":"api")") == 200);
    CHECK(last_user(world.upstream) == "alice@example.com");
    CHECK(status_of(good + R"(,"aud":["other","web"])") == 200);
    CHECK(status_of(good + R"(,"aud":["other"])") == 401);
    CHECK(status_of(good) == 401);
    CHECK(status_of(R"(,"aud":"api","iss":"https://idp.example/","email":"a")") == 401);
    CHECK(status_of(R"(,"aud":"api","iss":"https://idp.example")") == 401);
    CHECK(status_of(R"(,"aud":"api","iss":"https://idp.example","email":["a"])") == 401);
    CHECK(world.upstream.requests() == 2);
}

TEST_CASE("tokens: the known attacks do not pass") {
    const World world;
    const Tidegate tidegate(world.with(kAnyAlgorithm));
    const std::string good = token_for("alice");
    const auto dot = good.rfind('.');
    const std::string unsigned_part = good.substr(0, dot);
    const SigningKey public_as_secret = SigningKey::secret(rsa_key().public_pem());
    const std::string none = base64url(R"({"alg":"none"})") + "." + base64url(claims("mallory"));
    const std::string mine = other_key().jwk();
    const std::vector<std::string> attacks{
        none + ".",
        none + "." + good.substr(dot + 1),
        base64url(R"({"alg":"nOnE"})") + "." + base64url(claims("mallory")) + ".",
        token(public_as_secret, "HS256", claims("mallory")),
        with_head(public_as_secret, "HS256", R"(,"kid":"rsa")"),
        with_head(secret_key(), "HS256", R"(,"kid":"curve")"),
        with_head(secret_key(), "HS256", R"(,"kid":"../../../../dev/null")"),
        with_head(other_key(), "ES256", R"(,"jwk":)" + mine),
        with_head(other_key(), "ES256", R"(,"jku":"http://127.0.0.1:1/keys")"),
        with_head(curve_key(), "ES256", R"(,"crit":["exp"])"),
        with_head(curve_key(), "ES256", R"(,"alg":"ES256")"),
        unsigned_part + "." + base64url(std::string(64, '\0')),
        unsigned_part + "." + good.substr(dot + 1).substr(0, 84),
        unsigned_part + "." + good.substr(dot + 1) + "AA",
        good + "=",
        unsigned_part + ".",
        unsigned_part,
        good + "." + good,
        token(curve_key(), "ES256", R"({"sub":"alice"})"),
        token(curve_key(), "ES256", R"({"sub":"alice","sub":"mallory","exp":4000000000})"),
        token(curve_key(), "ES256", R"({"sub":["alice"],"exp":4000000000})"),
        token(curve_key(), "ES256", R"({"sub":"alice","exp":"4000000000"})"),
        token(curve_key(), "ES256", claims("alice") + "{}"),
    };
    for (const auto& attack : attacks) {
        CHECK_MESSAGE(tidegate.get("/", bearer(attack)).status() == 401, attack);
    }
    CHECK(world.upstream.requests() == 0);
    CHECK(tidegate.get("/", bearer(good)).status() == 200);
}

TEST_CASE("tokens: one that is remembered is believed to its end and no longer") {
    const World world;
    const Tidegate tidegate(world.with("algorithms: [ES256], leeway: 0s"));
    auto client = tidegate.client();
    const std::int64_t end = unix_seconds(2s);
    const std::string ends_soon =
        bearer(token(curve_key(), "ES256", R"({"sub":"alice","exp":)" + std::to_string(end) + "}"));
    int passed = 0;
    await("the end of the token", [&] {
        const auto before = unix_seconds();
        const int status = client.get("/", ends_soon).status();
        // What is sent before the end is decided before or after it.
        if (unix_seconds() < end) CHECK(status == 200);
        if (before >= end) CHECK(status == 401);
        passed += status == 200 ? 1 : 0;
        return status == 401 && before >= end;
    });
    CHECK(passed > 1);
    CHECK(client.get("/", ends_soon).status() == 401);
}

TEST_CASE("tokens: leeway lets clocks differ, at either end") {
    const World world;
    const Tidegate tidegate(world.with("algorithms: [ES256], leeway: 60s"));
    const auto status_of = [&](const std::string& more, std::chrono::seconds lifetime) {
        return tidegate.get("/", bearer(token_for("alice", more, lifetime))).status();
    };
    const auto at = [](const std::string& name, std::chrono::seconds when) {
        return ",\"" + name + "\":" + std::to_string(unix_seconds(when));
    };
    CHECK(status_of("", -30s) == 200);
    CHECK(status_of("", -90s) == 401);
    CHECK(status_of(at("nbf", 30s), 600s) == 200);
    CHECK(status_of(at("nbf", 90s), 600s) == 401);
    CHECK(status_of(at("iat", 90s), 600s) == 401);
}

TEST_CASE("tokens: without keys a token is neither refused nor accepted") {
    const World world;
    const Tidegate tidegate(identified(
        world.upstream, "user: [{jwt: {jwks: \"https://127.0.0.1:1/\", algorithms: [ES256]}}]"));
    for (int i = 0; i < 3; ++i) {
        const Message answer = tidegate.get("/asked", bearer(token_for("alice")));
        CHECK(answer.status() == 503);
        CHECK(std::stoi(answer.field("Retry-After")) >= 1);
        CHECK(answer.field("Content-Type") == "application/problem+json");
        CHECK(!answer.has("WWW-Authenticate"));
    }
    CHECK(logged(tidegate, "/asked").at("error") == "identity: unavailable");
    CHECK(world.upstream.requests() == 0);
    // A token that no key could make good is refused at once, and requests without a token are not
    // affected.
    CHECK(tidegate.get("/", bearer("not-a-token")).status() == 401);
    CHECK(tidegate.get("/").status() == 200);
    CHECK(last_user(world.upstream) == "nobody");
}

TEST_CASE("tokens: without keys a token does not pass as anonymous, nor count as a guess") {
    const World world;
    const Tidegate tidegate(
        identified(world.upstream,
                   "on_invalid_credentials: anonymous, failed_credentials: 1/h, "
                   "user: [{jwt: {jwks: \"https://127.0.0.1:1/\", algorithms: [ES256]}}]"));
    for (int i = 0; i < 3; ++i)
        CHECK(tidegate.get("/", bearer(token_for("alice"))).status() == 503);
    CHECK(world.upstream.requests() == 0);
}

}  // namespace tidegate::test::identity_token_test

// What happens to invalid credentials: the owner gets the reason, a client that guesses does not.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::identity_invalid_test {

using namespace std::chrono_literals;
using nlohmann::json;

namespace {

struct World {
    TemporaryFolder folder;
    std::string jwks = folder.write("keys.json", key_set({curve_key().jwk(R"("kid":"one",)")}));
    std::string keys = folder.write("keys.yaml", api_key_file({{"right", "alice"}}));
    std::string htpasswd = folder.write("users.htpasswd", kPasswords);
    Upstream upstream{ok()};

    std::string with(const std::string& more = "",
                     const std::string& policy = "key: [ip, user], limits: [1000/h]") const {
        return identified(upstream,
                          "user: [{jwt: {jwks: \"" + jwks +
                              "\", algorithms: [ES256], audience: us}}, {api_key: {keys: \"" +
                              keys + "\"}}, {basic: {htpasswd: \"" + htpasswd + "\"}}]" + more,
                          policy);
    }
};

const std::string kForUs = R"(,"aud":"us")";

std::vector<std::string> challenges(const Message& answer) {
    std::vector<std::string> found;
    for (const auto& [name, value] : answer.fields) {
        if (same_name(name, "WWW-Authenticate")) found.push_back(value);
    }
    return found;
}

// Everything of an answer but what is another each time.
std::string told(const Message& answer) {
    std::string text = answer.start_line;
    for (const auto& [name, value] : answer.fields) {
        const bool differs = same_name(name, "X-Request-Id") || same_name(name, "Date");
        if (!differs) text += "\n" + name + ": " + value;
    }
    auto body = json::parse(answer.body);
    body.erase("instance");
    body.erase("request-id");
    body.erase("request_id");
    return text + "\n" + body.dump();
}

}  // namespace

TEST_CASE("invalid: a 401 has a challenge for each method, and the fields of other answers") {
    const World world;
    const Tidegate tidegate(world.with());
    auto client = tidegate.client();
    const Message answer = client.get("/", line("X-Api-Key", "wrong"));
    CHECK(answer.status() == 401);
    CHECK(answer.field("Content-Type") == "application/problem+json");
    CHECK(json::parse(answer.body).at("status") == 401);
    CHECK(answer.count("X-Request-Id") == 1);
    CHECK(challenges(answer) ==
          std::vector<std::string>{R"(Bearer realm="tidegate")",
                                   R"(ApiKey realm="tidegate", header="x-api-key")",
                                   R"(Basic realm="tidegate", charset="UTF-8")"});
    // The connection goes on, with or without a body, and a valid request on it passes.
    CHECK(client.ask(post_request("/", "body", line("X-Api-Key", "wrong"))).status() == 401);
    client.send("HEAD / HTTP/1.1\r\nHost: example.test\r\nX-Api-Key: wrong\r\n\r\n");
    CHECK(client.response_to_head().status() == 401);
    CHECK(client.get("/", line("X-Api-Key", "right")).status() == 200);
    CHECK(world.upstream.requests() == 1);
}

TEST_CASE("invalid: a token with a right signature gets the reason of its refusal") {
    const World world;
    const Tidegate tidegate(world.with());
    const auto challenge = [&](const std::string& text) {
        const Message answer = tidegate.get("/", bearer(text));
        CHECK(answer.status() == 401);
        return challenges(answer).at(0);
    };
    const auto because = [](const std::string& what) {
        return R"(Bearer realm="tidegate", error="invalid_token", error_description=")" + what +
               "\"";
    };
    CHECK(challenge(token_for("alice", kForUs, -1h)) == because("The token has expired."));
    CHECK(challenge(token_for("alice", R"(,"aud":"them")")) ==
          because("The token is for another audience."));
    CHECK(challenge(token_for("alice", kForUs + ",\"nbf\":" + std::to_string(unix_seconds(1h)))) ==
          because("The token is not valid yet."));
    CHECK(challenge(token(curve_key(), "ES256", R"({"sub":"alice","aud":"us"})")) ==
          because("The token lacks a claim that is needed here, or has a wrong one."));
    // The same, and none of our keys signed it.
    const std::string nothing = because("The credentials are not valid.");
    CHECK(challenge(token(other_key(), "ES256", claims("alice", kForUs, -1h))) == nothing);
    CHECK(challenge(token(other_key(), "ES256", claims("alice", R"(,"aud":"them")"))) == nothing);
    CHECK(challenge("nonsense") == nothing);
}

TEST_CASE("invalid: a client that guesses does not learn what was wrong") {
    const World world;
    const Tidegate tidegate(world.with());
    const auto answer_to = [&](const std::string& path, const std::string& fields) {
        return told(tidegate.get(path, fields));
    };
    CHECK(answer_to("/password", basic("alice", "wrong")) ==
          answer_to("/user", basic("mallory", "wrong")));
    CHECK(answer_to("/user", basic("mallory", "wrong")) ==
          answer_to("/form", line("Authorization", "Basic !!")));
    const auto with_head = [](const std::string& head) {
        return bearer(token_of(other_key(), "ES256", head, claims("alice", kForUs)));
    };
    CHECK(answer_to("/signature", with_head(R"({"alg":"ES256","kid":"one"})")) ==
          answer_to("/key", with_head(R"({"alg":"ES256","kid":"two"})")));
    CHECK(answer_to("/key", with_head(R"({"alg":"ES256","kid":"two"})")) ==
          answer_to("/algorithm", with_head(R"({"alg":"ES384"})")));
    // The operator, who has the log, learns the reason.
    const auto error = [&](const std::string& path) { return logged(tidegate, path).at("error"); };
    CHECK(error("/password") == "password: wrong");
    CHECK(error("/user") == "password: wrong");
    CHECK(error("/form") == "credential: malformed");
    CHECK(error("/signature") == "token: wrong signature");
    CHECK(error("/key") == "token: no such key");
    CHECK(error("/algorithm") == "token: algorithm not allowed");
    CHECK(logged(tidegate, "/password").at("identifiers").empty());
}

TEST_CASE("invalid: in a cookie or a field of its own, the challenge names the place") {
    const World world;
    const Tidegate tidegate(identified(
        world.upstream,
        "user: [{jwt: {cookie: id, algorithms: [ES256], jwks: \"" + world.jwks + "\"}}]"));
    const Message answer = tidegate.get("/", line("Cookie", "id=x"));
    CHECK(answer.status() == 401);
    CHECK(challenges(answer) == std::vector<std::string>{R"(JWT realm="tidegate", cookie="id")"});
}

TEST_CASE("invalid: as anonymous a request goes on, counted by its address alone") {
    const World world;
    const Tidegate tidegate(
        world.with(", on_invalid_credentials: anonymous", "key: [ip, user], limits: [3/h]"));
    const std::vector<std::string> bad{line("X-Api-Key", "wrong"), basic("alice", "wrong"),
                                       bearer(token_for("alice", kForUs, -1h))};
    int asked = 0;
    for (const auto& fields : bad) {
        const std::string path = "/" + std::to_string(++asked);
        CHECK(tidegate.get(path, fields).status() == 200);
        CHECK(last_user(world.upstream) == "nobody");
        CHECK(logged(tidegate, path).at("identifiers") == json({"ip:127.0.0.1"}));
    }
    CHECK(tidegate.get("/", bad[0]).status() == 429);
    CHECK(tidegate.get("/", line("X-Api-Key", "right"), "127.0.0.2").status() == 200);
    CHECK(last_user(world.upstream) == "alice");
}

TEST_CASE("invalid: an anonymous request does not slip past a limit of users") {
    const World world;
    const Tidegate tidegate(
        world.with(", on_invalid_credentials: anonymous", "key: [user], limits: [3/h]"));
    for (const std::string& fields : {line("X-Api-Key", "wrong"), std::string()}) {
        const Message answer = tidegate.get("/", fields);
        CHECK(answer.status() == 401);
        CHECK(answer.has("WWW-Authenticate"));
    }
    CHECK(world.upstream.requests() == 0);
}

TEST_CASE("invalid: after an invalid credential no other method is tried, also with `anonymous`") {
    const World world;
    const Tidegate tidegate(world.with(", on_invalid_credentials: anonymous"));
    CHECK(tidegate.get("/", line("X-Api-Key", "wrong") + basic("alice", "wonderland")).status() ==
          200);
    CHECK(last_user(world.upstream) == "nobody");
}

}  // namespace tidegate::test::identity_invalid_test

// An identity provider whose keys come late, or are others than before.
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tokens.hpp"
#include "tls_server.hpp"

namespace tidegate::test::identity_rotation_test {

namespace {

using std::chrono::seconds;

// A fetch may follow another one after this.
constexpr seconds kFetchEvery{5};

std::string keys_named(const std::vector<std::string>& kids) {
    std::vector<std::string> keys;
    keys.reserve(kids.size());
    for (const std::string& kid : kids) keys.push_back(curve_key().jwk(R"("kid":")" + kid + "\","));
    return key_set(keys);
}

std::string token_named(const std::string& kid, const std::string& user = "alice",
                        const SigningKey& key = curve_key()) {
    return token_of(key, "ES256", R"({"alg":"ES256","kid":")" + kid + "\"}", claims(user));
}

// A server of keys, and of the metadata of an issuer, whose authority only `ca` names.
struct Provider {
    void serve(const std::string& keys) { say(tls_answer(keys)); }
    void fail() { say(tls_answer("", "503 Service Unavailable")); }
    void say(const std::string& bytes) {
        const std::lock_guard lock(mutex);
        answer = bytes;
    }
    std::string answer_to(const std::string& head) {
        if (head.starts_with("GET /.well-known/openid-configuration ")) {
            return tls_answer(R"({"issuer":")" + issuer() + R"(","jwks_uri":")" + server.url() +
                              "\"}");
        }
        const std::lock_guard lock(mutex);
        return answer;
    }
    std::string issuer() const { return server.url(""); }
    // How often keys were asked for.
    int fetches() const {
        int count = 0;
        for (const std::string& head : server.seen())
            count += head.starts_with("GET /keys ") ? 1 : 0;
        return count;
    }

    // `method` in `identity.user`, with its keys from here.
    std::string jwt(const std::string& more = "") const {
        return "user: [{jwt: {jwks: \"" + server.url() + "\", ca: \"" + ca +
               "\", algorithms: [ES256, EdDSA]" + more + "}}]";
    }

    TemporaryFolder folder;
    Authority authority;
    std::string ca = folder.write("ca.pem", authority.pem());
    std::mutex mutex;
    std::string answer = tls_answer(keys_named({"old"}));  // guarded by mutex
    TlsServer server{authority.issue(), [this](TlsServer::Conversation& client) {
                         client.send(answer_to(client.read_head()));
                         client.finish();
                     }};
};

// The requests of many clients, each with a token of its own, at the same time.
Statuses ask_at_once(const Tidegate& tidegate, int clients, const std::string& kid) {
    std::mutex mutex;
    Statuses statuses;
    std::vector<std::thread> threads;
    for (int i = 0; i < clients; ++i) {
        threads.emplace_back([&, i] {
            const auto token = token_named(kid, "user-" + std::to_string(i));
            const int status = tidegate.get("/", bearer(token)).status();
            const std::lock_guard lock(mutex);
            ++statuses[status];
        });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
}

}  // namespace

TEST_CASE("rotation: while there are no keys a token waits for them, and is no guess") {
    Provider provider;
    provider.fail();
    const Upstream upstream(ok());
    const Tidegate tidegate(identified(upstream, provider.jwt() + ", failed_credentials: 1/h"));
    const std::string alice = bearer(token_named("old"));
    const Message answer = tidegate.get("/", alice);
    CHECK(answer.status() == 503);
    CHECK(std::stoi(answer.field("Retry-After")) >= 1);
    CHECK(std::stoi(answer.field("Retry-After")) <= 6);
    provider.serve(keys_named({"old"}));
    await("the keys", [&] {
        const int status = tidegate.get("/", alice).status();
        CHECK((status == 200 || status == 503));
        return status == 200;
    });
    CHECK(last_user(upstream) == "alice");
    CHECK(upstream.requests() == 1);
    const std::string forged = bearer(token_named("old", "alice", other_key()));
    CHECK(tidegate.get("/", forged).status() == 401);
    CHECK(tidegate.get("/", forged).status() == 429);
}

TEST_CASE("rotation: keys of another URL invalidate tokens that the former keys verified") {
    const Provider before;
    Provider after;
    after.serve(key_set({other_key().jwk(R"("kid":"new",)")}));
    const Upstream upstream(ok());
    const Tidegate tidegate(identified(upstream, before.jwt()));
    const std::string old_token = bearer(token_named("old"));
    const std::string new_token = bearer(token_named("new", "bob", other_key()));
    for (int i = 0; i < 10; ++i) CHECK(tidegate.get("/", old_token).status() == 200);
    // Tidegate does not ask again so soon whether the key is there now.
    CHECK(tidegate.get("/", new_token).status() == 503);
    // The same place: no fetch, and no key is forgotten.
    CHECK(tidegate.reload().status() == 200);
    CHECK(tidegate.get("/", old_token).status() == 200);
    CHECK(before.server.connections() == 1);

    tidegate.write_configuration(identified(upstream, after.jwt()));
    CHECK(tidegate.reload().status() == 200);
    for (int i = 0; i < 10; ++i) CHECK(tidegate.get("/", old_token).status() == 503);
    CHECK(tidegate.get("/", new_token).status() == 200);
    CHECK(last_user(upstream) == "bob");
}

TEST_CASE(
    "rotation: under load, no token of a new key is refused, and the provider is asked once") {
    const CountedIn counted = either_store();
    Provider provider;
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 3\n" + counted.yaml() +
                            identified(upstream, provider.jwt() + ", failed_credentials: 1000/h",
                                       "key: [ip], limits: [1000000/h]"));
    std::atomic<int> users{0};
    BackgroundLoad known(tidegate.port(), 4, [&] {
        // Some are new to Tidegate, some are not.
        return get_request("/", bearer(token_named("old", std::to_string(users++ % 500))));
    });
    std::this_thread::sleep_for(kFetchEvery + milliseconds(200));
    const int fetches = provider.fetches();
    provider.serve(keys_named({"old", "new"}));
    CHECK(ask_at_once(tidegate, 64, "new") == Statuses{{200, 64}});
    CHECK(provider.fetches() == fetches + 1);
    const Statuses others = known.stop();
    CHECK(others.size() == 1);
    CHECK(others.count(200) == 1);
}

TEST_CASE("rotation: a flood of unknown keys asks the provider every five seconds at most") {
    Provider provider;
    const Upstream upstream(ok());
    const Tidegate tidegate(identified(upstream, provider.jwt() + ", failed_credentials: 1/h",
                                       "key: [ip], limits: [100000/h]"));
    const std::string alice = bearer(token_named("old"));
    CHECK(tidegate.get("/", alice).status() == 200);
    const auto begin = Clock::now();
    std::atomic<int> number{0};
    BackgroundLoad flood(tidegate.port(), 16, [&] {
        return get_request("/", bearer(token_named("made-up-" + std::to_string(number++))));
    });
    while (Clock::now() - begin < kFetchEvery + seconds(2)) {
        CHECK(tidegate.get("/", alice).status() == 200);
        std::this_thread::sleep_for(milliseconds(50));
    }
    const Statuses statuses = flood.stop();
    const auto taken = std::chrono::duration_cast<seconds>(Clock::now() - begin);
    for (const auto& [status, count] : statuses) CHECK((status == 401 || status == 503));
    CHECK(statuses.at(503) > 100);
    CHECK(provider.fetches() >= 2);
    CHECK(provider.fetches() <= 2 + taken / kFetchEvery);
    CHECK(upstream.requests() >= 50);
    // None of them was a guess.
    const std::string forged = bearer(token_named("old", "alice", other_key()));
    CHECK(tidegate.get("/", forged).status() == 401);
    CHECK(tidegate.get("/", forged).status() == 429);
}

TEST_CASE("rotation: an unknown key is 401 after a fetch without it, and 503 if the fetch fails") {
    Provider provider;
    const Upstream upstream(ok());
    const Tidegate tidegate(identified(upstream, provider.jwt() + ", failed_credentials: 1/h"));
    std::this_thread::sleep_for(kFetchEvery);
    const std::string stranger = bearer(token_named("stranger"));
    CHECK(tidegate.get("/", stranger).status() == 401);
    CHECK(provider.fetches() == 2);
    Message answer = tidegate.get("/", stranger);
    CHECK(answer.status() == 503);
    CHECK(answer.field("Content-Type") == "application/problem+json");
    const int pause = std::stoi(answer.field("Retry-After"));
    CHECK(pause >= 4);
    CHECK(pause <= 5);
    // A client that obeys Retry-After gets an answer, not 503 for ever.
    std::this_thread::sleep_for(seconds(pause));
    CHECK(tidegate.get("/", stranger).status() == 401);
    CHECK(provider.fetches() == 3);

    provider.fail();
    std::this_thread::sleep_for(kFetchEvery);
    CHECK(tidegate.get("/", stranger).status() == 503);
    CHECK(provider.fetches() == 4);
    for (int i = 0; i < 3; ++i) {
        answer = tidegate.get("/", stranger);
        CHECK(answer.status() == 503);
        CHECK(std::stoi(answer.field("Retry-After")) >= 1);
    }
    CHECK(tidegate.get("/", bearer(token_named("old"))).status() == 200);
    // The one guess is there still.
    const std::string forged = bearer(token_named("old", "alice", other_key()));
    CHECK(tidegate.get("/", forged).status() == 401);
    CHECK(tidegate.get("/", forged).status() == 429);
}

TEST_CASE("rotation: a provider that is slow delays a token by a second, and no client for ever") {
    Provider provider;
    std::atomic<bool> is_slow{false};
    const TlsServer slow(provider.authority.issue(), [&](TlsServer::Conversation& client) {
        client.read_head();
        if (is_slow) return client.wait_for_end();
        client.send(tls_answer(keys_named({"old"})));
        client.finish();
    });
    const Upstream upstream(ok());
    const Tidegate tidegate(identified(upstream, "user: [{jwt: {jwks: \"" + slow.url() +
                                                     "\", ca: \"" + provider.ca +
                                                     "\", algorithms: [ES256]}}]"));
    is_slow = true;
    std::this_thread::sleep_for(kFetchEvery);
    const auto begin = Clock::now();
    CHECK(tidegate.get("/", bearer(token_named("new"))).status() == 503);
    CHECK(Clock::now() - begin >= seconds(1));
    CHECK(Clock::now() - begin < seconds(3));
    // Others are served meanwhile.
    const auto then = Clock::now();
    CHECK(tidegate.get("/", bearer(token_named("old"))).status() == 200);
    CHECK(Clock::now() - then < seconds(1));
}

TEST_CASE("discovery: the metadata of the issuer name the keys, and tokens must be its own") {
    Provider provider;
    const Upstream upstream(ok());
    const SigningKey edwards = SigningKey::ed25519();
    provider.serve(key_set({curve_key().jwk(R"("kid":"old",)"), edwards.jwk(R"("kid":"ed",)")}));
    const std::string method = "user: [{jwt: {discovery: \"" + provider.issuer() + "\", ca: \"" +
                               provider.ca + "\", algorithms: [ES256, EdDSA], audience: api}}]";
    const Tidegate tidegate(identified(upstream, method));
    const auto claims_of = [](const std::string& issuer) {
        return claims("alice", R"(,"aud":"api","iss":")" + issuer + "\"");
    };
    const auto status = [&](const SigningKey& key, const std::string& algorithm,
                            const std::string& issuer) {
        const std::string head = R"({"alg":")" + algorithm + R"(","kid":")" +
                                 (algorithm == "EdDSA" ? "ed" : "old") + "\"}";
        return tidegate.get("/", bearer(token_of(key, algorithm, head, claims_of(issuer))))
            .status();
    };
    CHECK(status(curve_key(), "ES256", provider.issuer()) == 200);
    CHECK(status(edwards, "EdDSA", provider.issuer()) == 200);
    CHECK(status(SigningKey::ed25519(), "EdDSA", provider.issuer()) == 401);
    CHECK(status(curve_key(), "ES256", provider.issuer() + "/") == 401);
    CHECK(status(curve_key(), "ES256", "https://evil.example") == 401);
    CHECK(tidegate.metric("tidegate_jwks_keys{url=\"" + provider.issuer() + "\"}") == 2);
}

TEST_CASE("discovery: metadata of another issuer give no keys, and the log says why") {
    Provider provider;
    const Upstream upstream(ok());
    const Tidegate tidegate(identified(upstream, "user: [{jwt: {discovery: \"" + provider.issuer() +
                                                     "/\", ca: \"" + provider.ca +
                                                     "\", algorithms: [ES256]}}]"));
    CHECK(tidegate.get("/", bearer(token_named("old"))).status() == 503);
    CHECK_SOON(tidegate.errors().find("the metadata of the issuer: its `issuer` is `" +
                                      provider.issuer() + "`") != std::string::npos);
    CHECK(provider.fetches() == 0);
}

TEST_CASE("discovery: on this machine keys may come without TLS") {
    const Upstream upstream(ok());
    const Upstream keys(tls_answer(keys_named({"old"})));
    const Tidegate tidegate(identified(
        upstream, "user: [{jwt: {jwks: \"" + keys.url() + "/keys\", algorithms: [ES256]}}]"));
    CHECK(tidegate.get("/", bearer(token_named("old"))).status() == 200);
}

}  // namespace tidegate::test::identity_rotation_test

// What an address costs and counts as before its credential is checked, and how the address is
// read.
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::identity_address_test {

namespace {

struct World {
    TemporaryFolder folder;
    std::string jwks = folder.write("keys.json", key_set({curve_key().jwk()}));
    std::string keys = folder.write("keys.yaml", api_key_file({{"right", "alice"}}));
    std::string htpasswd = folder.write("users.htpasswd", kPasswords);
    Upstream upstream{ok()};

    std::string with(const std::string& policy, const std::string& more = "") const {
        return identified(upstream,
                          "user: [{jwt: {jwks: \"" + jwks +
                              "\", algorithms: [ES256]}}, {api_key: {keys: \"" + keys +
                              "\"}}, {basic: {htpasswd: \"" + htpasswd + "\"}}]" + more,
                          policy);
    }
};

std::string forged() {
    return bearer(token(other_key(), "ES256", claims("alice")));
}

// Each of `requests` has a token that was never sent before.
Statuses ask_with_new_tokens(const Tidegate& tidegate, int threads, int requests) {
    std::atomic<int> number{0};
    std::mutex mutex;
    Statuses statuses;
    std::vector<std::thread> clients;
    for (int i = 0; i < threads; ++i) {
        clients.emplace_back([&] {
            for (int next = number++; next < requests; next = number++) {
                const std::string fields = bearer(token_for("user-" + std::to_string(next)));
                const int status = tidegate.get("/", fields).status();
                const std::lock_guard lock(mutex);
                ++statuses[status];
            }
        });
    }
    for (std::thread& client : clients) client.join();
    return statuses;
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
    return count;
}

}  // namespace

TEST_CASE("address: over its limits it gets 429 before its credential is checked") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(counted.yaml() + world.with("key: [ip, user], limits: [5/h]",
                                                        ", failed_credentials: 1000/h"));
    for (int i = 0; i < 5; ++i) CHECK(tidegate.get("/").status() == 200);
    CHECK(tidegate.get("/").status() == 429);
    for (const std::string& fields :
         {forged(), line("Authorization", "Bearer not-a-token"), line("Authorization", "Basic !"),
          basic("alice", "wrong"), line("X-Api-Key", "wrong"), bearer(token_for("alice"))}) {
        CAPTURE(fields);
        for (int i = 0; i < 3; ++i) {
            const Message answer = tidegate.get("/over", fields);
            CHECK(answer.status() == 429);
            CHECK(std::stoi(answer.field("Retry-After")) > 3000);
            CHECK(answer.field("RateLimit").find("r=0") != std::string::npos);
            CHECK(answer.has("RateLimit-Policy"));
            CHECK(!answer.has("WWW-Authenticate"));
        }
    }
    CHECK(logged(tidegate, "/over").at("limited_by") == "p-1h");
    // A guess is taken before anything is checked: none was.
    CHECK(decisions(tidegate, "admitted", "failed_credentials") == 0);
    CHECK(decisions(tidegate, "denied", "failed_credentials") == 0);
    // The proxy remembers what Redis has said, and does not ask again.
    if (counted.redis) CHECK(tidegate.metric("tidegate_deny_cache_hits_total") >= 14);
    // Other addresses are served.
    CHECK(tidegate.get("/", forged(), "127.0.0.2").status() == 401);
    CHECK(tidegate.get("/", bearer(token_for("bob")), "127.0.0.2").status() == 200);
}

TEST_CASE("address: a candidate sees requests with credentials of an address over its limits") {
    const World world;
    const Tidegate tidegate(world.with("key: [ip], limits: [2/h], candidate: {limits: [4/h]}",
                                       ", failed_credentials: 1000/h"));
    for (int i = 0; i < 6; ++i) {
        const std::string fields = bearer(token_for("user-" + std::to_string(i)));
        CHECK(tidegate.get("/", fields).status() == (i < 2 ? 200 : 429));
    }
    CHECK(tidegate.get("/", forged()).status() == 401);
    const auto requests = [&](const std::string& live, const std::string& candidate) {
        return tidegate.metric("tidegate_candidate_total{policy=\"p\",live=\"" + live +
                               "\",candidate=\"" + candidate + "\"}");
    };
    CHECK_SOON(requests("admitted", "admitted") == 2);
    CHECK_SOON(requests("denied", "admitted") == 2);
    CHECK_SOON(requests("denied", "denied") == 2);
}

TEST_CASE("address: checking its limits takes nothing, and the whole quota passes") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(
        counted.yaml() + world.with("key: [ip], limits: [20/h, {name: day, quota: 20, per: 1day, "
                                    "algorithm: gcra}]",
                                    ", failed_credentials: 1000/h"));
    for (int i = 0; i < 10; ++i) CHECK(tidegate.get("/", forged()).status() == 401);
    CHECK(ask_with_new_tokens(tidegate, 8, 40) == Statuses{{200, 20}, {429, 20}});
    CHECK(tidegate.get("/", forged()).status() == 429);
    CHECK(world.upstream.requests() == 20);
}

TEST_CASE("address: limits that depend on the user are not judged before the user is known") {
    const CountedIn counted = either_store();
    const World world;
    const Tidegate tidegate(counted.yaml() +
                            world.with("key: [ip], limits: [2/h], exempt: [\"user:bob\"]",
                                       ", failed_credentials: 50/h"));
    for (int i = 0; i < 2; ++i) CHECK(tidegate.get("/").status() == 200);
    CHECK(tidegate.get("/").status() == 429);
    CHECK(tidegate.get("/", basic("bob", "wonderland")).status() == 200);
    CHECK(tidegate.get("/", basic("alice", "wonderland")).status() == 429);
    CHECK(tidegate.get("/", forged()).status() == 401);
}

TEST_CASE("address: without Redis credentials are checked as before") {
    CountedIn counted = counted_in_redis();
    const World world;
    const Tidegate tidegate(counted.yaml() + "replicas: 1\n" +
                            world.with("key: [ip], limits: [5/h]"));
    CHECK(tidegate.get("/", bearer(token_for("alice"))).status() == 200);
    counted.redis->stop();
    CHECK(tidegate.get("/", bearer(token_for("bob"))).status() == 200);
    CHECK(tidegate.get("/", forged()).status() == 401);
}

TEST_CASE("address: by default an address may send 60 wrong credentials a minute") {
    const World world;
    const Tidegate tidegate(world.with("key: [ip], limits: [1000/h]"));
    CHECK(hammer({tidegate.port()}, 8, 70, forged()) == Statuses{{401, 60}, {429, 10}});
    const Tidegate off(world.with("key: [ip], limits: [1000/h]", ", failed_credentials: off"));
    CHECK(hammer({off.port()}, 8, 70, forged()) == Statuses{{401, 70}});
}

TEST_CASE("address: the default limit of wrong credentials does not need Redis at the start") {
    CountedIn counted = counted_in_redis();
    counted.redis->stop();
    const World world;
    const Tidegate tidegate(counted.yaml() + "on_store_failure: allow\n" +
                            world.with("key: [ip], limits: [1000/h]"));
    CHECK(tidegate.get("/", bearer(token_for("alice"))).status() == 200);
    CHECK(hammer({tidegate.port()}, 4, 70, forged()) == Statuses{{401, 60}, {429, 10}});
}

TEST_CASE("address: the zone of an address makes no other client of it") {
    const World world;
    const Tidegate tidegate(
        world.with("key: [ip], limits: [3/h]", ", client_ip: {trusted_proxies: [127.0.0.1]}"));
    const auto from = [&](const std::string& address) {
        return tidegate.get("/", line("X-Forwarded-For", address)).status();
    };
    CHECK(from("fe80::7%eth0") == 200);
    CHECK(from("[fe80::7%eth1]:80") == 200);
    CHECK(from("fe80::7") == 200);
    CHECK(from("fe80::7%25eth2") == 429);
    // Nor does it end the chain at the proxy, in whose count all would be.
    CHECK(from("2001:db8::7%eth0") == 200);
    CHECK(from("203.0.113.7, 127.0.0.1") == 200);
    CHECK(tidegate.metric("tidegate_forwarding_invalid_total") == 0);
}

TEST_CASE("address: a chain that cannot be read is counted, and logged once for the process") {
    const World world;
    const Tidegate tidegate("threads: 4\n" + world.with("key: [ip], limits: [1000/h]",
                                                        ", client_ip: {trusted_proxies: "
                                                        "[127.0.0.1], header: forwarded}"));
    for (int i = 0; i < 12; ++i) {
        CHECK(tidegate.get("/", line("Forwarded", "for=secret-" + std::to_string(i))).status() ==
              200);
        CHECK(tidegate.get("/", line("Forwarded", "for=garbage, for=203.0.113.7")).status() == 200);
        CHECK(tidegate.get("/", line("Forwarded", "for=garbage"), "127.0.0.2").status() == 200);
    }
    CHECK_SOON(tidegate.metric("tidegate_forwarding_invalid_total") == 12);
    const std::string said =
        "warning the field forwarded from 127.0.0.1 has an entry that is not an IP address: "
        "Tidegate counts all such requests as the client 127.0.0.1.";
    CHECK_SOON(count_of(tidegate.errors(), said) == 1);
    CHECK_SOON(count_of(tidegate.errors(), "tidegate_forwarding_invalid_total") == 1);
    CHECK(count_of(tidegate.errors(), "secret") == 0);
}

}  // namespace tidegate::test::identity_address_test

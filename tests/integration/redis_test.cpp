// Several proxies, one count: the limits as Redis holds them.
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

namespace tidegate::test::redis_test {

namespace {

// `store: {redis: ...}`; `user_part` is `name:password@`, `more` follows the address. The timeout
// is long, so that the local share does not answer on a busy machine.
std::string on_redis(std::uint16_t port, const std::string& user_part = "",
                     const std::string& more = "") {
    return "store: {redis: {url: \"redis://" + user_part + "127.0.0.1:" + std::to_string(port) +
           more + ", timeout: 5s}}\n";
}

std::string on(const RedisServer& redis) {
    return on_redis(redis.port(), "", "/0\"");
}

std::vector<std::string> keys(const RedisServer& redis) {
    std::vector<std::string> found;
    std::istringstream names(
        redis.text({"EVAL", "return table.concat(redis.call('KEYS', '*'), '\\n')", "0"}));
    for (std::string name; std::getline(names, name);) found.push_back(name);
    return found;
}

}  // namespace

TEST_CASE("redis: two proxies and eight connections admit a user exactly as often as one would") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const std::string yaml =
        on(redis) +
        "identity: {client_ip: {trusted_proxies: [127.0.0.2]}, user: [{header: {name: x-user-id, "
        "from: trusted_proxies}}]}\n"
        "upstreams: {api: {servers: [" +
        upstream.url() +
        "]}}\n"
        "policies: {users: {key: [user], limits: [120/min]}}\n"
        "routes: [{name: all, match: {path: \"/**\"}, upstream: api, policies: [users]}]\n";
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    // The first use of a script may find it unknown: this test does not count that.
    hammer({first.port(), second.port()}, 8, 16, "X-User-Id: bob\r\n", "127.0.0.2");
    redis.command({"CONFIG", "RESETSTAT"});
    const auto statuses =
        hammer({first.port(), second.port()}, 8, 600, "X-User-Id: alice\r\n", "127.0.0.2");
    CHECK(statuses == Statuses{{200, 120}, {429, 480}});
    CHECK(upstream.requests() == 16 + 120);
    // Equal requests of one moment share a command, and denials are remembered.
    const long charges = calls(redis, "evalsha");
    CHECK(charges >= 1);
    CHECK(charges <= 600);
    CHECK(calls(redis, "eval") == 0);
}

TEST_CASE("redis: twenty names over two proxies are counted apart, each exactly") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const std::string yaml = on(redis) + "identity: {client_ip: {trusted_proxies: [127.0.0.2]}}\n" +
                             simple(upstream.url(), "3/h, 5/day");
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    for (int name = 0; name < 20; ++name) {
        const auto fields = "X-Forwarded-For: 192.0.2." + std::to_string(name) + "\r\n";
        CHECK(hammer({first.port(), second.port()}, 4, 10, fields, "127.0.0.2") ==
              Statuses{{200, 3}, {429, 7}});
    }
}

TEST_CASE("redis: a script that Redis forgot is sent again, and the request is counted once") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const Tidegate tidegate(on(redis) + simple(upstream.url(), "10/h"));
    CHECK(tidegate.get().field("RateLimit").find(";r=9") != std::string::npos);
    redis.command({"SCRIPT", "FLUSH"});
    CHECK(tidegate.get().field("RateLimit").find(";r=8") != std::string::npos);
    CHECK(tidegate.get().field("RateLimit").find(";r=7") != std::string::npos);
    for (const auto& line : tidegate.access_log(3)) CHECK(line.at("store") == "redis");
}

TEST_CASE("redis: scripts forgotten again and again under load lose and double nothing") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const Tidegate tidegate(on(redis) + simple(upstream.url(), "100/h"));
    std::jthread forgetting([&](const std::stop_token& done) {
        while (!done.stop_requested()) {
            redis.command({"SCRIPT", "FLUSH"});
            std::this_thread::sleep_for(milliseconds{10});
        }
    });
    const auto statuses = hammer({tidegate.port()}, 8, 400);
    forgetting.request_stop();
    forgetting.join();
    CHECK(statuses == Statuses{{200, 100}, {429, 300}});
}

TEST_CASE("redis: counts outlive the proxy") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const auto yaml = on(redis) + simple(upstream.url(), "2/h");
    {
        const Tidegate tidegate(yaml);
        CHECK(tidegate.get().status() == 200);
        CHECK(tidegate.get().status() == 200);
    }
    const Tidegate tidegate(yaml);
    CHECK(tidegate.get().status() == 429);
}

TEST_CASE("redis: every key has the prefix and an expiry, whatever clients send") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const Tidegate tidegate(
        on_redis(redis.port(), "", "/0\", key_prefix: \"mine:\"") +
        "identity: {client_ip: {trusted_proxies: [127.0.0.1]}, user: [{header: {name: x-user-id, "
        "from: trusted_proxies}}]}\n" +
        simple(upstream.url(), "10/s, 100/h"));
    for (const std::string& user :
         {std::string("alice"), std::string("{a}{b}"), std::string("a b%c"), std::string(250, 'x')})
        CHECK(tidegate.get("/", "X-User-Id: " + user + "\r\n").status() == 200);
    const auto found = keys(redis);
    CHECK(found.size() >= 5);
    for (const auto& key : found) {
        CAPTURE(key);
        CHECK(key.rfind("mine:", 0) == 0);
        CHECK(std::stol(redis.text({"PTTL", key})) > 0);
        CHECK(key.size() < 256);
    }
}

TEST_CASE("redis: a password and a database number are used") {
    const Upstream upstream(ok());
    const RedisServer redis({"--requirepass", "s3cret"});
    const Tidegate tidegate(on_redis(redis.port(), ":s3cret@", "/3\"") +
                            simple(upstream.url(), "2/h"));
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.access_log(1).at(0).at("store") == "redis");
    RedisConnection connection(redis.port());
    connection.command({"AUTH", "s3cret"});
    CHECK(connection.command({"DBSIZE"})->integer == 0);
    connection.command({"SELECT", "3"});
    CHECK(connection.command({"DBSIZE"})->integer > 0);

    const Tidegate again(on_redis(redis.port(), "", "/3\", password: s3cret") +
                         simple(upstream.url(), "2/h"));
    CHECK(again.get().field("RateLimit").find(";r=0") != std::string::npos);
}

TEST_CASE("redis: a user of an access list may be named") {
    const Upstream upstream(ok());
    const RedisServer redis;
    redis.command({"ACL", "SETUSER", "proxy", "on", ">pw", "~*", "&*", "+@all"});
    const Tidegate tidegate(on_redis(redis.port(), "proxy:pw@", "/0\"") +
                            simple(upstream.url(), "2/h"));
    CHECK(tidegate.get().status() == 200);
    CHECK(tidegate.access_log(1).at(0).at("store") == "redis");
}

TEST_CASE("redis: with a password that Redis refuses it is not ready; it is named but not shown") {
    const RedisServer redis({"--requirepass", "s3cret"});
    for (const std::string user_part : {":wrong-one@", ""}) {
        CAPTURE(user_part);
        const std::string said = refusal_by_store(on_redis(redis.port(), user_part, "/0\"") +
                                                  simple("http://127.0.0.1:1", "5/h"));
        CHECK_MESSAGE(said.find("127.0.0.1:" + std::to_string(redis.port())) != std::string::npos,
                      said);
        CHECK(said.find("wrong-one") == std::string::npos);
    }
}

TEST_CASE("redis: with a database that is not there it is not ready") {
    const RedisServer redis;
    const std::string said =
        refusal_by_store(on_redis(redis.port(), "", "/99\"") + simple("http://127.0.0.1:1", "5/h"));
    CHECK(said.find("127.0.0.1:" + std::to_string(redis.port())) != std::string::npos);
}

TEST_CASE("redis: refused at the start it decides alone, and is ready once Redis takes it") {
    const Upstream upstream(ok());
    // It has no password, so it refuses ours.
    const RedisServer redis;
    const Tidegate tidegate(
        on_redis(redis.port(), ":s3cret@", "/0\", breaker: {probe_every: 100ms}") +
            "replicas: 2\n" + simple(upstream.url(), "4/h"),
        "", {.is_refused = true});
    for (const int status : {200, 200, 429}) CHECK(tidegate.get().status() == status);
    CHECK(tidegate.access_log(3).at(0).at("store") == "local");
    CHECK(tidegate.admin("/readyz").value().body.find(R"("state":"down")") != std::string::npos);
    CHECK(redis.text({"CONFIG", "SET", "requirepass", "s3cret"}) == "OK");
    CHECK_SOON(tidegate.admin("/readyz").value().status() == 200);
}

}  // namespace tidegate::test::redis_test

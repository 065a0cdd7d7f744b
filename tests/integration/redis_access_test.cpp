// A user of Redis's access list with the rights of docs/redis.md and no more, and the errors when
// one of them is missing; passwords and sockets.
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>
#include <nlohmann/json.hpp>

#include "integration/check_world.hpp"
#include "integration/client.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

namespace tidegate::test::redis_access_test {

namespace {

// As docs/redis.md has them.
const std::string kRights =
    "resetkeys ~tg:* resetchannels -@all +script|load +select +ping +evalsha +time +mget +set "
    "+setrange +pttl +pexpire +zadd +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zscore "
    "+zcard +expire";

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), {}};
}

void set_user(const RedisServer& redis, const std::string& rights) {
    std::vector<std::string> command{"ACL", "SETUSER", "proxy", "reset", "on", ">pw"};
    for (std::string& word : words_of(rights)) command.push_back(std::move(word));
    REQUIRE(redis.text(command) == "OK");
}

std::string store(const RedisServer& redis, const std::string& more = "") {
    return "store: {redis: {url: \"redis://proxy:pw@127.0.0.1:" + std::to_string(redis.port()) +
           "/1\", timeout: 5s, breaker: {failures: 3, probe_every: 100ms}" + more +
           "}}\nreplicas: 1\n";
}

// Every algorithm, every way of counting, in requests that take and give back.
std::string everything(const Upstream& upstream) {
    return "identity: {client_ip: {trusted_proxies: [127.0.0.0/8]}}\nupstreams: {api: {servers: [" +
           upstream.url() +
           "]}}\n"
           "routes:\n"
           "  - {name: mixed, match: {path: /mixed}, upstream: api, policies: [{key: [ip, "
           "\"header:x-tenant\"], limits: [{quota: 20, per: 1s}, {name: f, quota: 50, per: 1s, "
           "algorithm: fixed_window, anchor: first_request}, {name: l, quota: 60, per: 1s, "
           "algorithm: sliding_log}, {name: g, quota: 90, per: 1s, algorithm: gcra}]}]}\n"
           "  - {name: plain, match: {path: /plain}, upstream: api, policies: [{key: [ip], limits: "
           "[10/s, 1000/h]}]}\n"
           "  - {name: all, match: {path: /all}, upstream: api, policies: [{key: [ip], limits: "
           "[{quota: 3, per: 1h, count: all}]}]}\n"
           "  - {name: login, match: {path: /login}, upstream: api, policies: [{key: [ip], limits: "
           "[{quota: 1000, per: 1h, count: [401]}]}]}\n"
           "  - {name: slow, match: {path: /slow}, upstream: api, policies: [{key: [ip], limits: "
           "[{quota: 9, algorithm: concurrency}]}]}\n"
           "  - {name: line, match: {path: /line}, upstream: api, policies: [{key: [ip], limits: "
           "[{quota: 100, per: 1s, algorithm: leaky_bucket, burst: 9}]}]}\n"
           "  - {name: send, match: {path: /send}, upstream: api, policies: [{key: [ip], limits: "
           "[{quota: 1, per: 1min, algorithm: schedule, at: {header: x-send-at}}, {name: s, quota: "
           "9, per: 1h, algorithm: schedule, at: {header: x-send-at}}]}]}\n";
}

// Long enough for a slot to be renewed.
constexpr milliseconds kSlow{4'600};

std::string answer(const Message& request) {
    if (request.start_line.find(" /slow?") != std::string::npos) std::this_thread::sleep_for(kSlow);
    return ok();
}

void mixed_load(const Tidegate& tidegate) {
    std::thread slow([&] { CHECK(tidegate.get("/slow?").status() == 200); });
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    for (int i = 0; i < 40; ++i) {
        const std::string from = "X-Forwarded-For: 192.0.2." + std::to_string(i % 4) + "\r\n";
        tidegate.get("/mixed", from + "X-Tenant: t" + std::to_string(i % 3) + "\r\n");
        for (const char* path : {"/plain", "/all", "/login", "/line", "/slow"}) {
            tidegate.get(path, from);
        }
        tidegate.get("/send", from + "X-Send-At: " + std::to_string(now + i * 40) + "\r\n");
    }
    slow.join();
}

// The program's log, once `part` is in it.
void await_said(const Tidegate& tidegate, const std::string& part) {
    const auto deadline = Clock::now() + kPatience;
    while (tidegate.errors().find(part) == std::string::npos) {
        REQUIRE_MESSAGE(Clock::now() < deadline, part, " is not in: ", tidegate.errors());
        std::this_thread::sleep_for(milliseconds{5});
    }
}

std::string refusal(const std::string& yaml) {
    return refusal_by_store(yaml + simple("http://127.0.0.1:1", "5/h"));
}

void says(const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

}  // namespace

TEST_CASE(
    "redis access: the rights of docs/redis.md are enough for everything, and all are needed") {
    const Upstream upstream(Upstream::answering(answer));
    RedisServer redis;
    set_user(redis, kRights);
    {
        const Tidegate tidegate("threads: 1\n" + store(redis) + everything(upstream));
        mixed_load(tidegate);
        int by_redis = 0;
        for (const auto& line : tidegate.access_log(281)) {
            CHECK(line.at("store") != "local");
            by_redis += line.at("store") == "redis" ? 1 : 0;
        }
        CHECK(by_redis > 100);
        // A value that is not ours is left for a day, with an expiry of its own.
        RedisConnection hand(redis.port());
        hand.command({"SELECT", "1"});
        const Reply keys = hand.command({"KEYS", "tg:*:plain*{ip:192.0.2.0}"});
        REQUIRE(keys->elements == 1);
        hand.command({"SET", keys->element[0]->str, "not ours"});
        tidegate.get("/plain", "X-Forwarded-For: 192.0.2.0\r\n");
        // Given up and back: the probe.
        redis.pause();
        for (int i = 0; i < 6; ++i) tidegate.get("/plain");
        await_said(tidegate, "Redis is down");
        redis.resume();
        await_said(tidegate, "Redis is back");
        CHECK(tidegate.errors().find("allowed") == std::string::npos);
    }
    CHECK(redis.text({"ACL", "LOG"}).empty());
    const auto statistics = redis.text({"INFO", "commandstats"});
    for (const std::string& word : words_of(kRights)) {
        if (word.front() != '+') continue;
        CAPTURE(word);
        CHECK(statistics.find("cmdstat_" + word.substr(1) + ":calls=") != std::string::npos);
    }
}

TEST_CASE("redis access: these rights are enough where requests of one client settle at once") {
    constexpr int kRequests = 8;
    std::atomic<bool> may_answer{false};
    const Upstream upstream(Upstream::answering([&](const Message&) {
        while (!may_answer) std::this_thread::sleep_for(milliseconds{1});
        return ok("", "X-Cost: 3\r\n");
    }));
    const RedisServer redis;
    set_user(redis, kRights);
    // One thread: what these requests give back is in one command or in few.
    const Tidegate tidegate(
        store(redis) + "threads: 1\nupstreams: {api: {servers: [" + upstream.url() +
        "]}}\nroutes: [{upstream: api, policies: [{key: ip, limits: [1000/h, 9000/day], "
        "cost: {reserve: 10, settle: {header: x-cost}}}]}]\n");
    const auto counted = [&] {
        const auto answer = tidegate.admin("/api/inspect?identifier=ip:127.0.0.1");
        const auto all = nlohmann::json::parse(answer.value().body);
        return all.at("identifiers").at(0).at("policies").at(0).at("limits").at(0).at("counted");
    };
    std::vector<RawClient> clients;
    for (int i = 0; i < kRequests; ++i) {
        clients.push_back(tidegate.client());
        clients.back().send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    CHECK_SOON(upstream.requests() == kRequests);
    may_answer = true;
    for (RawClient& client : clients) CHECK(client.response().status() == 200);
    CHECK_SOON(counted() == kRequests * 3);
    CHECK(redis.text({"ACL", "LOG"}).empty());
}

TEST_CASE("redis access: these rights are enough to settle reservations") {
    const RedisServer redis;
    set_user(redis, kRights);
    const CheckApi api(store(redis) + "on_store_failure: deny\n" + kCheckPolicies);
    for (const int cost : {1, 2, 3}) {
        const std::string user = "user" + std::to_string(cost);
        const std::string id = api.reserve(user, 2);
        for (int i = 0; i < 2; ++i) CHECK(api.settle(id, cost).status() == 200);
        CHECK(api.left(user) == 5 - cost);
    }
    CHECK(redis.text({"ACL", "LOG"}).empty());
}

TEST_CASE(
    "redis access: with a right that is missing for the start it is not ready, and all are "
    "listed") {
    const RedisServer redis;
    std::string fewer = kRights;
    fewer.erase(fewer.find("+script|load "), 13);
    set_user(redis, fewer);
    const auto said = refusal(store(redis));
    says(said, "no permissions to run the 'script|load' command");
    says(said, "give its Redis user these rights: " + kRights);
    fewer = kRights;
    fewer.erase(fewer.find("+select "), 8);
    set_user(redis, fewer);
    says(refusal(store(redis)), "database 1 was refused: NOPERM");
}

TEST_CASE(
    "redis access: a missing right of a script is logged with all rights, and decides nothing") {
    const Upstream upstream(ok());
    const RedisServer redis;
    for (const std::string lacking : {"+mget ", "+evalsha ", "~tg:* "}) {
        CAPTURE(lacking);
        std::string fewer = kRights;
        fewer.erase(fewer.find(lacking), lacking.size());
        set_user(redis, fewer);
        const Tidegate tidegate(store(redis) + simple(upstream.url(), "5/h"));
        CHECK(tidegate.get().status() == 200);
        CHECK(tidegate.access_log(1).at(0).at("store") == "local");
        await_said(tidegate, "refused the script");
        await_said(tidegate, "give its Redis user these rights: " + kRights);
    }
}

TEST_CASE("redis access: a right that only the heartbeat lacks is reported, too") {
    const Upstream upstream(ok());
    const RedisServer redis;
    std::string fewer = kRights;
    fewer.erase(fewer.find(" +zcard"), 7);
    set_user(redis, fewer);
    const Tidegate tidegate(store(redis) + simple(upstream.url(), "5/h"));
    await_said(tidegate, "refused a command: NOPERM");
    await_said(tidegate, "'zcard'");
}

TEST_CASE("redis access: the reported rights have the prefix of keys as a pattern") {
    const RedisServer redis;
    set_user(redis, "resetkeys -@all");
    says(refusal(store(redis, ", key_prefix: \"a*b[c:\"")), "resetkeys ~a\\*b\\[c:* resetchannels");
}

TEST_CASE("redis access: with a password that is wrong, or a user that is off, it is not ready") {
    const RedisServer redis;
    set_user(redis, kRights);
    redis.command({"ACL", "SETUSER", "proxy", "resetpass", ">another"});
    auto said = refusal(store(redis));
    says(said, "the password was refused: WRONGPASS");
    CHECK(said.find("proxy:pw") == std::string::npos);
    redis.command({"ACL", "SETUSER", "proxy", "off", ">pw"});
    says(refusal(store(redis)), "the password was refused: WRONGPASS");
}

TEST_CASE("redis access: a Unix socket, with a password from a file and one from the environment") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string socket = (folder.path() / "redis.sock").string();
    const RedisServer redis({"--unixsocket", socket, "--user", "proxy", "on", ">pw", "~*", "+@all",
                             "--user", "default", "off"});
    const std::string password = folder.write("redis.password", "pw\n");
    ::setenv("TIDEGATE_TEST_PASSWORD", "pw", 1);
    for (const std::string& from : {"file:" + password, std::string("${TIDEGATE_TEST_PASSWORD}")}) {
        const Tidegate tidegate("store: {redis: {url: \"unix://" + socket +
                                "\", timeout: 5s, username: proxy, password: \"" + from +
                                "\"}}\nreplicas: 1\n" + simple(upstream.url(), "5/h"));
        CHECK(tidegate.get().status() == 200);
        CHECK(tidegate.access_log(1).at(0).at("store") == "redis");
    }
    ::unsetenv("TIDEGATE_TEST_PASSWORD");
}

}  // namespace tidegate::test::redis_access_test

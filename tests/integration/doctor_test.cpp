// `tidegate doctor` on real servers, well and in bad states: it finds what is wrong, says what to
// do, ends in time and leaves nothing behind.
#include <unistd.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>
#include <nlohmann/json.hpp>

#include "certificates.hpp"
#include "cluster_world.hpp"
#include "integration/process.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/tracing_world.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"
#include "sentinel_world.hpp"

namespace tidegate::test::doctor_test {

using nlohmann::json;

namespace {

// As docs/redis.md has them.
const std::vector<std::string> kRights{
    "resetkeys", "~tg:*",     "resetchannels",  "-@all",    "+script|load",
    "+select",   "+ping",     "+evalsha",       "+time",    "+mget",
    "+set",      "+setrange", "+pttl",          "+pexpire", "+zadd",
    "+zcount",   "+zrange",   "+zrangebyscore", "+zrem",    "+zremrangebyscore",
    "+zscore",   "+zcard",    "+expire"};

struct Examined {
    int code = -1;
    json report;
    std::string text;  // of the report

    // The first finding of a check that is so bad, as text; empty if there is none.
    std::string find(const std::string& check, const std::string& severity) const {
        for (const json& finding : report.at("findings")) {
            if (finding.at("check") == check && finding.at("severity") == severity) {
                return finding.dump();
            }
        }
        return {};
    }
    bool has(const std::string& check, const std::string& severity,
             const std::string& part = "") const {
        const std::string found = find(check, severity);
        return !found.empty() && found.find(part) != std::string::npos;
    }
};

Examined examine(const std::string& yaml, const std::vector<std::string>& more = {}) {
    const TemporaryFolder folder;
    std::vector<std::string> words{"doctor", "--json", "-c", folder.write("tidegate.yaml", yaml)};
    words.insert(words.end(), more.begin(), more.end());
    const auto finished = run_tidegate(words);
    INFO(finished.errors);
    Examined examined{finished.code, {}, finished.output};
    REQUIRE(json::accept(finished.output));
    examined.report = json::parse(finished.output);
    return examined;
}

std::string url_of(const RedisServer& redis, const std::string& who = "") {
    return "redis://" + who + "127.0.0.1:" + std::to_string(redis.port());
}

std::string on_redis(const std::string& url, const Upstream& upstream,
                     const std::string& more = "") {
    return "store: {redis: {url: \"" + url + "\"" + more + "}}\nreplicas: 1\n" +
           simple(upstream.url(), "5/h");
}

// `Redis 8.0.2` or `Valkey 8.1.1`: what this machine has as redis-server.
std::string product_of(const RedisServer& redis) {
    const std::string info = redis.text({"INFO", "server"});
    for (const auto& [field, name] :
         {std::pair("\nvalkey_version:", "Valkey "), std::pair("\nredis_version:", "Redis ")}) {
        const std::size_t at = info.find(field);
        if (at == info.npos) continue;
        const std::size_t begin = at + std::string_view(field).size();
        return name + info.substr(begin, info.find('\r', begin) - begin);
    }
    return "neither";
}

void set_user(const RedisServer& redis, const std::set<std::string>& without = {}) {
    std::vector<std::string> command{"ACL", "SETUSER", "proxy", "reset", "on", ">pw-secret"};
    for (const std::string& word : kRights) {
        if (!without.contains(word)) command.push_back(word);
    }
    REQUIRE(redis.text(command) == "OK");
}

}  // namespace

TEST_CASE("doctor: all is well, and nothing is left behind") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const auto found = examine(on_redis(url_of(redis), upstream));
    CHECK_MESSAGE(found.code == 0, found.text);
    CHECK(found.report.at("faults") == 0);
    CHECK(found.report.at("warnings") == 0);
    for (const char* check : {"configuration", "redis.reachable", "redis.version", "redis.role",
                              "redis.memory", "redis.clock", "redis.rights", "redis.scripts",
                              "redis.latency", "redis.replicas", "upstream.reachable"}) {
        CHECK_MESSAGE(found.has(check, "ok"), check, " in ", found.text);
    }
    CHECK(found.has("redis.version", "ok", product_of(redis)));
    CHECK(found.has("redis.persistence", "note", "longest window is 1h"));
    CHECK(redis.text({"DBSIZE"}) == "0");
    CHECK(upstream.seen().empty());
}

TEST_CASE("doctor: a command that was renamed is named, and keeps Tidegate from being ready") {
    const Upstream upstream(ok());
    const RedisServer without_sets(
        {"--rename-command", "ZADD", "", "--rename-command", "INFO", ""});
    const auto found = examine(on_redis(url_of(without_sets), upstream));
    CHECK(found.code == 3);
    CHECK_MESSAGE(found.has("redis.commands", "fault", "it does not have: zadd"), found.text);
    CHECK(found.find("redis.rights", "fault").empty());
    CHECK(found.has("redis.version", "ok"));
    const RedisServer without_scripts({"--rename-command", "SCRIPT", ""});
    const std::string config = on_redis(url_of(without_scripts), upstream);
    CHECK(examine(config).has("redis.commands", "fault", "script|load"));
    const Tidegate refused(config, "", {.is_refused = true});
    for (const char* part : {"unknown command", "remove its `rename-command`"}) {
        CAPTURE(part);
        CHECK_SOON(refused.errors().find(part) != std::string::npos);
    }
}

TEST_CASE("doctor: it says what `Via` does to nginx's gzip until the configuration says `via`") {
    const Upstream upstream(ok());
    const auto note = [&](const std::string& more) {
        return examine(more + simple(upstream.url(), "5/h")).find("upstream.via", "note");
    };
    CHECK(note("").find("gzip_proxied any") != std::string::npos);
    CHECK(note("forwarding: {x_forwarded: on}\n").find("gzip") != std::string::npos);
    CHECK(note("forwarding: {via: on}\n").empty());
    CHECK(note("forwarding: {via: off}\n").empty());
}

TEST_CASE("doctor: the documented rights are enough, and what they hide is a note") {
    const Upstream upstream(ok());
    const RedisServer redis;
    set_user(redis);
    for (const char* database : {"", "/1"}) {
        const auto found =
            examine(on_redis(url_of(redis, "proxy:pw-secret@") + database, upstream));
        CHECK_MESSAGE(found.code == 0, found.text);
        CHECK(found.has("redis.version", "ok", product_of(redis)));
        CHECK(found.has("redis.settings", "note", "+info"));
        CHECK(found.has("redis.latency", "ok"));
    }
    CHECK(redis.text({"DBSIZE"}) == "0");
}

TEST_CASE("doctor: each right that is missing is named, with all that are needed") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const std::string yaml = on_redis(url_of(redis, "proxy:pw-secret@"), upstream);
    for (const std::string right : {"+mget", "+evalsha", "+script|load", "+pexpire", "+zcard"}) {
        CAPTURE(right);
        set_user(redis, {right});
        const auto found = examine(yaml);
        CHECK(found.code == 3);
        CHECK_MESSAGE(found.has("redis.rights", "fault", right.substr(1)), found.text);
        CHECK(found.has("redis.rights", "fault", "ACL SETUSER proxy resetkeys ~tg:*"));
        CHECK(found.text.find("pw-secret") == std::string::npos);
    }
    set_user(redis, {"~tg:*"});
    CHECK(examine(yaml).has("redis.rights", "fault", "NOPERM"));
}

TEST_CASE("doctor: no key is left for ever, whatever rights are missing") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const std::string yaml = on_redis(url_of(redis, "proxy:pw-secret@"), upstream);
    const std::vector<std::set<std::string>> all{
        {"+pexpire", "+expire", "+zrem"}, {"+set", "+pexpire"}, {"+expire"}, {"+zadd", "+pexpire"}};
    for (const auto& without : all) {
        set_user(redis, without);
        CHECK(examine(yaml).code == 3);
        // What could not be removed expires at once.
        const auto until = Clock::now() + kPatience;
        while (redis.text({"DBSIZE"}) != "0") REQUIRE(Clock::now() < until);
    }
}

TEST_CASE("doctor: a Redis that evicts is a warning") {
    const Upstream upstream(ok());
    const RedisServer redis({"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"});
    const auto found = examine(on_redis(url_of(redis), upstream));
    CHECK(found.code == 1);
    CHECK(found.has("redis.eviction", "warning", "noeviction"));
}

TEST_CASE("doctor: a Redis that is full is a fault") {
    const Upstream upstream(ok());
    const RedisServer redis({"--maxmemory", "100kb", "--maxmemory-policy", "noeviction"});
    const auto found = examine(on_redis(url_of(redis), upstream));
    CHECK(found.code == 3);
    CHECK(found.has("redis.writes", "fault", "full"));
}

TEST_CASE("doctor: passwords that are wrong, missing or too many are faults, and not shown") {
    const Upstream upstream(ok());
    const RedisServer open;
    const RedisServer locked({"--requirepass", "right-one"});
    const auto wrong = examine(on_redis(url_of(locked, ":wrong-one@"), upstream));
    CHECK(wrong.has("redis.password", "fault", "WRONGPASS"));
    CHECK(wrong.text.find("wrong-one") == std::string::npos);
    CHECK(examine(on_redis(url_of(locked), upstream)).has("redis.password", "fault", "has none"));
    CHECK(examine(on_redis(url_of(open, ":any@"), upstream))
              .has("redis.password", "fault", "it has no password"));
    CHECK(examine(on_redis(url_of(locked, ":right-one@"), upstream)).code == 0);
}

TEST_CASE("doctor: a replica is a fault") {
    const Upstream upstream(ok());
    const RedisServer master;
    const RedisServer replica({"--replicaof", "127.0.0.1 " + std::to_string(master.port())});
    const auto found = examine(on_redis(url_of(replica), upstream));
    CHECK(found.code == 3);
    CHECK_MESSAGE(found.has("redis.role", "fault", "replica"), found.text);
}

TEST_CASE("doctor: a script that keeps Redis busy is reported") {
    const Upstream upstream(ok());
    const RedisServer redis({"--lua-time-limit", "1"});
    RedisConnection hand(redis.port());
    hand.send("*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n");
    // It leaves with the read, which waits until the script is killed.
    std::thread busy([&] { hand.read(); });
    const auto until = Clock::now() + kPatience;
    while (redis.text({"PING"}) == "PONG") REQUIRE(Clock::now() < until);
    const auto found = examine(on_redis(url_of(redis), upstream));
    CHECK(found.code == 3);
    CHECK_MESSAGE(found.has("redis.answers", "fault", "SCRIPT KILL"), found.text);
    redis.command({"SCRIPT", "KILL"});
    busy.join();
}

TEST_CASE("doctor: no Redis, one that hangs and one that is not Redis are reported in time") {
    const Upstream upstream(ok());
    RedisServer redis;
    CHECK(examine(on_redis(url_of(redis), upstream)).code == 0);
    CHECK(examine(on_redis("redis://" + upstream.url().substr(7), upstream))
              .has("redis.answers", "fault"));
    const auto began = Clock::now();
    redis.pause();
    const auto hangs = examine(on_redis(url_of(redis), upstream), {"--within", "500ms"});
    CHECK(hangs.has("redis.answers", "fault", "no answer in time"));
    CHECK(hangs.has("time", "warning", "--within"));
    CHECK(Clock::now() - began < milliseconds{1'500} + slack());
    redis.resume();
    redis.stop();
    const auto none = examine(on_redis(url_of(redis), upstream));
    CHECK(none.code == 3);
    CHECK(none.has("redis.reachable", "fault", "Connection refused"));
    const auto name = examine(on_redis("redis://nobody.invalid", upstream));
    CHECK(name.has("redis.name", "fault", "name"));
}

TEST_CASE("doctor: TLS that is not accepted is a fault, and a certificate that expires a warning") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const Authority authority({-7'200, 100 * 86'400});
    const Authority stranger({-7'200, 100 * 86'400});
    const Certificate own = authority.issue("IP:127.0.0.1", {-60 * 86'400, 3 * 86'400});
    const std::string port = std::to_string(free_port());
    const RedisServer redis({"--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file",
                             folder.write("ca.pem", authority.pem()), "--tls-cert-file",
                             folder.write("own.pem", own.pem()), "--tls-key-file",
                             folder.write("own.key", own.key_pem())});
    const auto believing = [&](const Authority& who) {
        return examine(on_redis("rediss://127.0.0.1:" + port, upstream,
                                ", tls: {ca: \"" + folder.write("who.pem", who.pem()) + "\"}"));
    };
    const auto good = believing(authority);
    CHECK_MESSAGE(good.has("redis.certificate", "warning", "expires on"), good.text);
    CHECK(good.has("redis.scripts", "ok"));
    CHECK(good.has("certificate.file", "ok"));
    CHECK(believing(stranger).has("redis.reachable", "fault", "certificate is not accepted"));
    const auto plain = examine(on_redis("redis://127.0.0.1:" + port, upstream));
    CHECK(plain.has("redis.answers", "fault", "rediss://"));
}

TEST_CASE("doctor: a client certificate that is missing or refused is named, in every TLS") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const Authority authority;
    const Certificate own = authority.issue("DNS:localhost");
    const Certificate unknown = Authority().issue("DNS:tidegate");
    const auto file = [&](const char* name, const std::string& text) {
        return folder.write(name, text);
    };
    const std::string ca = file("ca.pem", authority.pem());
    const std::string presenting = ", certificate: \"" + file("unknown.pem", unknown.pem()) +
                                   "\", key: \"" + file("unknown.key", unknown.key_pem()) + "\"";
    for (const std::string protocols : {"TLSv1.2", "TLSv1.3"}) {
        CAPTURE(protocols);
        const std::string port = std::to_string(free_port());
        const RedisServer redis({"--tls-port", port, "--tls-auth-clients", "yes",
                                 "--tls-ca-cert-file", ca, "--tls-protocols", protocols,
                                 "--tls-cert-file", file("own.pem", own.pem()), "--tls-key-file",
                                 file("own.key", own.key_pem())});
        const auto examined = [&](const std::string& more) {
            return examine(on_redis("rediss://localhost:" + port, upstream,
                                    ", tls: {ca: \"" + ca + "\"" + more + "}"));
        };
        for (int i = 0; i < 5; ++i) {
            const auto missing = examined("");
            CHECK_MESSAGE(missing.text.find("it wants a client certificate, and none is "
                                            "configured") != std::string::npos,
                          missing.text);
            CHECK(missing.text.find("write `certificate` and `key` in store.redis.tls") !=
                  std::string::npos);
        }
        const auto refused = examined(presenting);
        CHECK_MESSAGE(refused.text.find("it does not accept our certificate") != std::string::npos,
                      refused.text);
    }
}

TEST_CASE("doctor: sentinels are asked, and the master they name is visited") {
    const Upstream upstream(ok());
    SentinelWorld world;
    const auto on = [&](std::string sentinel) {
        return "store: {redis: {sentinel: " + std::move(sentinel) + "}}\nreplicas: 1\n" +
               simple(upstream.url(), "5/h");
    };
    const auto well = examine(on(world.yaml()));
    CHECK_MESSAGE(well.report.at("faults") == 0, well.text);
    CHECK(well.has("sentinel.quorum", "ok"));
    CHECK(well.has("sentinel.master", "ok", std::to_string(world.server(world.master()).port())));
    CHECK(well.has("redis.scripts", "ok"));

    std::string other = world.yaml();
    other.replace(other.find(SentinelWorld::kMaster), SentinelWorld::kMaster.size(), "another");
    const auto unknown = examine(on(other));
    CHECK(unknown.code == 3);
    CHECK(unknown.has("sentinel.master", "fault", "`mymaster`"));

    world.sentinel(0).stop();
    const auto fewer = examine(on(world.yaml()));
    CHECK_MESSAGE(fewer.code == 1, fewer.text);
    CHECK(fewer.has("redis.reachable", "warning"));
    world.sentinel(1).stop();
    CHECK(examine(on(world.yaml())).has("sentinel.quorum", "warning", "a failover needs 2"));
    world.sentinel(2).stop();
    CHECK(examine(on(world.yaml())).code == 3);
}

TEST_CASE("doctor: every master of a cluster is visited, and one that is away is a fault") {
    const Upstream upstream(ok());
    ClusterWorld world(ClusterWorld::Options{});
    const std::string on = "store: {redis: {cluster: " + world.urls() + "}}\nreplicas: 1\n" +
                           simple(upstream.url(), "5/h");
    const auto well = examine(on);
    CHECK_MESSAGE(well.report.at("faults") == 0, well.text);
    CHECK(well.has("cluster.slots", "ok", "3 masters serve 16384 of 16384 slots"));
    std::size_t visited = 0;
    for (const json& finding : well.report.at("findings")) {
        visited += finding.at("check") == "redis.scripts" ? 1 : 0;
    }
    CHECK(visited == 3);
    CHECK(well.has("redis.replicas", "ok"));
    for (std::size_t node = 0; node < world.size(); ++node) {
        CHECK(world.node(node).text({"DBSIZE"}) == "0");
    }

    const auto as_single = examine(on_redis(url_of(world.node(0)), upstream));
    CHECK(as_single.has("redis.mode", "fault", "cluster"));
    const RedisServer single;
    const auto as_cluster = examine("store: {redis: {cluster: [" + url_of(single) +
                                    "]}}\nreplicas: 1\n" + simple(upstream.url(), "5/h"));
    CHECK(as_cluster.has("redis.mode", "fault", "`url`"));

    world.node(2).stop();
    const auto away = examine(on);
    CHECK(away.code == 3);
    CHECK(away.has("redis.reachable", "fault", std::to_string(world.node(2).port())));
}

TEST_CASE("doctor: an upstream without any server that answers is a fault, else a warning") {
    const Upstream there(ok());
    const std::string nowhere = "http://127.0.0.1:" + std::to_string(free_port());
    const auto both = examine(unlimited({there.url(), nowhere}));
    CHECK(both.code == 1);
    CHECK(both.has("upstream.reachable", "warning", "Connection refused"));
    CHECK(both.has("store", "ok", "memory"));
    const auto none = examine(unlimited({nowhere}));
    CHECK(none.code == 3);
    CHECK(none.has("upstream.reachable", "fault", "upstreams.api.servers"));
    CHECK(there.seen().empty());
}

TEST_CASE("doctor: a collector that takes no spans is a warning, with what to do") {
    const Upstream upstream(ok());
    const auto with = [&](const std::string& tracing) {
        return examine(unlimited({upstream.url()}) + tracing);
    };
    const Collector well;
    const auto found = with(well.tracing("headers: {authorization: \"Bearer s3cret\"}"));
    CHECK(found.code == 0);
    CHECK(found.has("tracing.collector", "ok", "/v1/traces takes spans"));
    REQUIRE(well.server().seen().size() == 1);
    CHECK(well.server().last().field("authorization") == "Bearer s3cret");
    CHECK(well.server().last().body == R"({"resourceSpans":[]})");
    CHECK(found.text.find("s3cret") == std::string::npos);

    const auto answering = [](const std::string& status) {
        return Collector(
            [=](const Message&) { return "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n"; });
    };
    const auto refused = with(answering("401 Unauthorized").tracing());
    CHECK(refused.code == 1);
    CHECK(refused.has("tracing.collector", "warning", "`tracing.headers`"));
    const auto lost = with(answering("404 Not Found").tracing());
    CHECK(lost.has("tracing.collector", "warning", "correct the path of `tracing.otlp`"));
    const auto away = with(tracing_to(free_port()));
    CHECK(away.code == 1);
    CHECK(away.has("tracing.collector", "warning", "Connection refused"));
    CHECK(away.has("tracing.collector", "warning", "correct `tracing.otlp`"));
    const auto other = with(answering("415 Unsupported Media Type").tracing());
    CHECK(other.has("tracing.collector", "warning", "OTLP/HTTP in JSON"));
    const auto failing = with(answering("503 Service Unavailable").tracing());
    CHECK(failing.has("tracing.collector", "warning", "answers 503"));
    CHECK(with("").text.find("tracing.collector") == std::string::npos);
}

TEST_CASE("doctor: each server is asked once what its health check asks") {
    const Upstream well(ok());
    const Upstream lost("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    const std::string check = "health_check: {path: \"/healthz?deep=1\", host: api.internal}";
    const auto both = examine(unlimited({well.url(), lost.url()}, check));
    CHECK_MESSAGE(both.code == 1, both.text);
    CHECK(both.has("upstream.health", "ok", "GET /healthz?deep=1 answers 200 in "));
    CHECK(both.has("upstream.health", "warning", "it answers 404"));
    CHECK(both.has("upstream.health", "warning", "correct upstreams.api.health_check.path"));
    REQUIRE(well.requests() == 1);
    CHECK(well.last().target() == "/healthz?deep=1");
    CHECK(well.last().field("Host") == "api.internal");
    CHECK(lost.requests() == 1);
    const auto none = examine(unlimited({lost.url()}, check));
    CHECK(none.code == 3);
    CHECK(none.has("upstream.health", "fault", "gets no requests"));
}

TEST_CASE("doctor: a health check that is redirected, or not answered, is reported") {
    const Upstream moved(
        "HTTP/1.1 302 Found\r\nLocation: /login?next=hidden\r\nContent-Length: 0\r\n\r\n");
    const auto redirected = examine(unlimited({moved.url()}, "health_check: {path: /}"));
    CHECK_MESSAGE(redirected.code == 1, redirected.text);
    CHECK(redirected.has("upstream.health", "warning", "answers 302 (to /login)"));
    CHECK(redirected.text.find("hidden") == std::string::npos);

    const Upstream silent([](Conversation& conversation) {
        Message request;
        if (conversation.read(request)) conversation.wait_for_end();
    });
    const auto late = examine(unlimited({silent.url()}, "health_check: {path: /, timeout: 100ms}"));
    CHECK(late.code == 3);
    CHECK(late.has("upstream.health", "fault", "it does not answer within 100ms"));
}

TEST_CASE("doctor: a server whose address a name before it has is never chosen, and reported") {
    const Upstream upstream(ok());
    const std::string by_name = "http://localhost:" + std::to_string(upstream.port());
    const auto found = examine(unlimited({by_name, upstream.url()}));
    CHECK_MESSAGE(found.has("upstream.servers", "warning", upstream.url().substr(7)), found.text);
    CHECK(found.has("upstream.servers", "warning", "no server of its own"));
    CHECK(examine(unlimited({upstream.url()})).find("upstream.servers", "warning").empty());
}

TEST_CASE("doctor: of a configuration with faults nothing else is checked") {
    const auto found = examine("upstream: 7\nlimits: [x]\n");
    CHECK(found.code == 3);
    CHECK(found.report.at("faults") == 2);
    CHECK(found.has("configuration", "fault", "tidegate.yaml:1:11"));
    CHECK(run_tidegate({"doctor", "-c", "/nonexistent/file"}).code == 3);
}

TEST_CASE("doctor: it asks the running Tidegate whether questions of gateways name a client") {
    const std::uint16_t port = free_port();
    const Tidegate tidegate("listen: {address: \"127.0.0.1:" + std::to_string(port) +
                                "\", face: forward_auth, dialect: envoy}\nlimits: [100000/h]\n",
                            "admin-token");
    const auto found = [&] {
        const auto finished = run_tidegate({"doctor", "--json", "-c", tidegate.file()});
        INFO(finished.errors);
        REQUIRE(json::accept(finished.output));
        return Examined{finished.code, json::parse(finished.output), finished.output};
    };
    CHECK(found().has("questions.address", "note", "no gateway has asked yet"));
    const auto ask = [&](const std::string& fields) {
        CHECK(http_get(port, "/", fields).status() != 0);
    };
    ask("X-Forwarded-For: 192.0.2.1\r\n");
    const auto well = found();
    CHECK_MESSAGE(well.has("questions.address", "ok", "1 so far"), well.text);
    CHECK(well.code == 0);
    for (int i = 0; i < 100; ++i) ask("");
    const auto some = found();
    CHECK_MESSAGE(some.has("questions.address", "warning", "100 of 101 questions"), some.text);
    CHECK(some.code == 1);
    CHECK(some.text.find("admin-token") == std::string::npos);
}

TEST_CASE("doctor: without a running Tidegate, the questions of gateways are unknown") {
    const std::string listen =
        "listen: {address: \"127.0.0.1:8181\", face: forward_auth, dialect: "
        "nginx}\nlimits: [1/s]\n";
    const std::string admin = "admin: 127.0.0.1:" + std::to_string(free_port()) + "\n";
    const auto away = examine(listen + admin);
    CHECK(away.has("questions.address", "note", "cannot reach the admin listener"));
    CHECK(away.code == 0);
    CHECK(examine(listen + "admin: off\n").has("questions.address", "note", "admin: off"));
    const Upstream stranger(ok("metrics"));
    const auto other = examine(listen + "admin: " + stranger.url().substr(7) + "\n");
    CHECK_MESSAGE(other.has("questions.address", "note", "another server"), other.text);
}

TEST_CASE("doctor: says which machines reach the listeners of gateways and programs") {
    const std::string yaml =
        "listen:\n"
        "  - {address: \"127.0.0.1:8181\", face: forward_auth, dialect: nginx}\n"
        "  - {address: \"0.0.0.0:8182\", face: check, from: [203.0.0.0/8]}\n"
        "policies: {all: {key: [ip], limits: [1/s]}}\n"
        "routes: [{name: all, policies: [all]}]\nadmin: off\n";
    const auto found = examine(yaml);
    CHECK(found.code == 1);
    CHECK(found.has("face.reach", "ok", "only this machine"));
    CHECK(found.has("face.reach", "warning", "203.0.0.0/8"));
}

TEST_CASE("doctor: a command line that is wrong is neither a fault nor a warning") {
    CHECK(run_tidegate({"doctor", "--within", "5"}).code == 2);
    CHECK(run_tidegate({"doctor", "--within", "1h"}).code == 2);
    CHECK(run_tidegate({"doctor", "--nothing"}).code == 2);
}

TEST_CASE("doctor: it may run beside a Tidegate that serves, and sees it") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const std::string yaml = on_redis(url_of(redis), upstream);
    const Tidegate tidegate(yaml);
    const auto until = Clock::now() + kPatience;
    while (redis.text({"EXISTS", "tg:{replicas}"}) == "0") REQUIRE(Clock::now() < until);
    CHECK(examine(yaml).has("redis.replicas", "ok", "1 Tidegate is counting"));
    CHECK(tidegate.get().status() == 200);
}

}  // namespace tidegate::test::doctor_test

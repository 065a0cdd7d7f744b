#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "doctor/examinations.hpp"

namespace tidegate::doctor::redis_test {

namespace {

using namespace std::chrono_literals;

Finding memory(const std::string& fields) {
    Findings findings;
    check_memory(RedisInfo(fields), findings);
    REQUIRE(findings.list().size() == 1);
    return findings.list().front();
}

Finding persistence(const std::string& fields, const std::optional<std::string>& save) {
    Findings findings;
    check_persistence(RedisInfo(fields), save, 1h, findings);
    REQUIRE(findings.list().size() == 1);
    return findings.list().front();
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("redis_info: fields are read whatever stands between them") {
    const RedisInfo info("# Memory\r\nused_memory:17\r\n\r\nrole:master\r\nodd\r\nurl:a:b\nlast:1");
    CHECK(info.number("used_memory") == 17);
    CHECK(info.text("role") == "master");
    CHECK(info.text("url") == "a:b");
    CHECK(info.number("last") == 1);
    CHECK_FALSE(info.number("role"));
    CHECK_FALSE(info.number("missing"));
    CHECK(info.text("odd").empty());
    CHECK(RedisInfo("").text("role").empty());
}

TEST_CASE("redis_info: a policy that evicts loses counts, where there is a maxmemory") {
    const Finding lru = memory("used_memory:1\nmaxmemory:100\nmaxmemory_policy:allkeys-lru\n");
    CHECK(lru.severity == Severity::warning);
    CHECK(lru.check == "redis.eviction");
    CHECK(has(lru.what, "`allkeys-lru`"));
    CHECK(has(lru.advice, "noeviction"));
    // All keys of Tidegate expire.
    CHECK(memory("maxmemory:100\nmaxmemory_policy:volatile-ttl\n").severity == Severity::warning);
    CHECK(memory("maxmemory:0\nmaxmemory_policy:allkeys-lru\n").severity == Severity::note);
    CHECK(memory("maxmemory:0\nmaxmemory_policy:noeviction\n").severity == Severity::ok);
}

TEST_CASE("redis_info: memory that is nearly full is a warning") {
    const std::string most = "maxmemory_policy:noeviction\nmaxmemory:1000000\nused_memory:";
    CHECK(memory(most + "899999\n").severity == Severity::ok);
    CHECK(memory(most + "900000\n").severity == Severity::warning);
    CHECK(memory(most + "9000000\n").severity == Severity::warning);
    CHECK(memory("used_memory:99999999999999999999\nmaxmemory:x\n").severity == Severity::ok);
    CHECK(memory("").severity == Severity::ok);
}

TEST_CASE("redis_info: what a restart forgets is reported with the longest window") {
    CHECK(persistence("aof_enabled:1\n", "").severity == Severity::ok);
    const Finding none = persistence("aof_enabled:0\n", "");
    CHECK(none.severity == Severity::note);
    CHECK(has(none.what, "loses all counts"));
    CHECK(has(none.what, "the longest window is 1h"));
    CHECK(has(persistence("aof_enabled:0\n", "3600 1").what, "since the last snapshot"));
    CHECK(has(persistence("aof_enabled:0\n", std::nullopt).what,
              "does not show whether there are snapshots"));
}

TEST_CASE("redis_info: a disk that cannot be written is a warning, if it is written to at all") {
    CHECK(persistence("aof_enabled:1\naof_last_write_status:err\n", "").severity ==
          Severity::warning);
    CHECK(persistence("rdb_last_bgsave_status:err\n", "60 1").severity == Severity::warning);
    CHECK(persistence("rdb_last_bgsave_status:err\n", "").severity == Severity::note);
}

TEST_CASE("redis_info: connections are a warning when nearly all are in use") {
    const auto found = [](const std::string& fields) {
        Findings findings;
        check_connections(RedisInfo(fields), findings);
        return findings.list().size();
    };
    CHECK(found("connected_clients:8999\nmaxclients:10000\n") == 0);
    CHECK(found("connected_clients:9000\nmaxclients:10000\n") == 1);
    CHECK(found("connected_clients:9000\n") == 0);
    CHECK(found("connected_clients:0\nmaxclients:0\n") == 0);
}

TEST_CASE("shown error: a password that an old server repeats is not shown") {
    CHECK(shown_error("ERR unknown command `AUTH`, with args beginning with: `secret`, ", "") ==
          "`ERR unknown command `AUTH``");
    CHECK(shown_error("a\x1b[2J", "") == "`a\\x1b[2J`");
}

TEST_CASE("shown error: a password is not shown, however its server repeats it") {
    CHECK(shown_error("ERR what is AUTH secret? secretsecret", "secret") ==
          "`ERR what is AUTH ***? ******`");
    // A text that is cut off or escaped is hidden before that.
    CHECK(shown_error("ERR " + std::string(53, 'x') + "secret", "secret").find("sec") ==
          std::string::npos);
    CHECK(shown_error("ERR a\x1b", "a\x1b") == "`ERR ***`");
    CHECK(without_secret("any", "") == "any");
    CHECK(without_secret("", "any").empty());
}

}  // namespace tidegate::doctor::redis_test

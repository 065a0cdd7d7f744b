// Fake servers of kinds that are hard to get: old, loading, with a wrong clock, or with malformed
// answers.
#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "doctor/examinations.hpp"
#include "fake_redis.hpp"
#include "redis/cluster_map.hpp"
#include "redis/resp.hpp"
#include "store/redis_store.hpp"
#include "store/scripts.hpp"

namespace tidegate::doctor::redis_node_test {

namespace {

using namespace std::chrono_literals;
using test::FakeRedis;
using test::Words;

// The event loop of a fake in a thread of its own: a check blocks.
class Served {
  public:
    explicit Served(std::function<std::string(const Words&)> answer) : redis(io) {
        redis.other = answer;
        redis.evalsha = std::move(answer);
        thread_ = std::jthread([this] { io.run(); });
    }
    ~Served() { stopped(); }

    // The fake serves no more, so that the test can look at its commands.
    FakeRedis& stopped() {
        io.stop();
        if (thread_.joinable()) thread_.join();
        return redis;
    }

    asio::io_context io;
    FakeRedis redis;

  private:
    std::jthread thread_;
};

std::string bulk(const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

std::string time_answer(std::chrono::seconds offset) {
    const auto now = std::chrono::system_clock::now().time_since_epoch() + offset;
    return "*2\r\n" + bulk(std::to_string(std::chrono::floor<std::chrono::seconds>(now).count())) +
           bulk("0");
}

// Like a server that permits everything, and decides nothing.
std::string willing(const Words& words) {
    if (words[0] == "SCRIPT") {
        for (const redis::Script* script : store::all_scripts()) {
            if (script->text == words[2]) return bulk(std::string(script->sha1));
        }
    }
    if (words[0] == "TIME") return time_answer(0s);
    if (words[0] == "INFO" || words[0] == "CONFIG") return "-NOPERM no\r\n";
    if (words[0] == "ZCOUNT") return ":0\r\n";
    return "+OK\r\n";
}

Findings check(Served& served, const std::string& more = "", RedisNode::Kind kind = {},
               std::vector<redis::SlotRange> slots = {}, const std::string& who = "") {
    const auto loaded = config::load_text(
        "upstream: http://127.0.0.1:1\nlimits: [5/h]\nreplicas: 1\nstore: {redis: {url: "
        "\"redis://" +
            who + "127.0.0.1:" + std::to_string(served.redis.port()) + "/1\"" + more + "}}\n",
        "test.yaml");
    REQUIRE(loaded.config);
    const auto& settings = std::get<config::RedisSettings>(loaded.config->store);
    const RedisTarget target{settings.address, settings.username, settings.password,
                             nullptr,          "store.redis.url", "redis"};
    return check_node({*loaded.config,
                       settings,
                       target,
                       {std::chrono::steady_clock::now() + 5s, 300ms},
                       kind,
                       std::move(slots)});
}

const Finding* find(const Findings& findings, std::string_view check,
                    Severity severity = Severity::fault) {
    const auto& list = findings.list();
    const auto found = std::find_if(list.begin(), list.end(), [&](const Finding& finding) {
        return finding.check == check && finding.severity == severity;
    });
    return found == list.end() ? nullptr : &*found;
}

bool says(const Finding* finding, const std::string& part) {
    return finding != nullptr && (finding->what + finding->advice).find(part) != std::string::npos;
}

Findings check_who_answers(const std::string& command, const std::string& answer) {
    Served served(
        [&](const Words& words) { return words[0] == command ? answer : willing(words); });
    return check(served);
}

}  // namespace

TEST_CASE("redis_node: every right that Tidegate asks for is tried") {
    Served served(willing);
    const auto found = check(served);
    CHECK(find(found, "redis.rights", Severity::ok) != nullptr);
    std::istringstream rights(store::access_rights("tg:"));
    int tried = 0;
    for (std::string right; rights >> right;) {
        if (right.front() != '+') continue;
        CAPTURE(right);
        std::string name = right.substr(1, right.find('|') - 1);
        std::transform(name.begin(), name.end(), name.begin(), ::toupper);
        CHECK(served.stopped().count(name) > 0);
        ++tried;
    }
    CHECK(tried > 15);
}

TEST_CASE("redis_node: what is written is under the prefix, expires and is removed") {
    Served served(willing);
    check(served, ", key_prefix: \"other:\"");
    for (const Words& words : served.stopped().seen) {
        const std::string& name = words[0];
        const bool has_key = name.starts_with("Z") || name == "SET" || name == "SETRANGE" ||
                             name == "PEXPIRE" || name == "EXPIRE";
        if (has_key) CHECK(words[1].starts_with("other:"));
        if (name == "SET") CHECK(words[3] == "PX");
    }
    const auto removed =
        std::count_if(served.redis.seen.begin(), served.redis.seen.end(),
                      [](const Words& words) { return words[0] == "PEXPIRE" && words[2] == "0"; });
    CHECK(removed >= 2);
}

TEST_CASE("redis_node: an old server is known by INFO, or HELLO, or not at all") {
    CHECK(says(find(check_who_answers("INFO", bulk("redis_version:4.0.14\r\nredis_mode:standalone"
                                                   "\r\nrole:master\r\n")),
                    "redis.version"),
               "4.0.14"));
    const auto hello =
        check_who_answers("HELLO",
                          "*6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n6.0.16\r\n"
                          "$4\r\nrole\r\n$6\r\nmaster\r\n");
    CHECK(says(find(hello, "redis.version", Severity::ok), "6.0.16"));
    CHECK(find(hello, "redis.settings", Severity::note) != nullptr);
    const auto neither = check_who_answers("HELLO", "-ERR unknown command\r\n");
    CHECK(find(neither, "redis.version", Severity::note) != nullptr);
}

TEST_CASE("redis_node: the product and its own version are named, whatever Redis it is like") {
    const auto of = [](const std::string& info) {
        return check_who_answers("INFO", bulk(info + "redis_mode:standalone\r\nrole:master\r\n"));
    };
    CHECK(says(find(of("redis_version:8.0.2\r\n"), "redis.version", Severity::ok), "Redis 8.0.2"));
    const auto valkey = of("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n");
    CHECK(says(find(valkey, "redis.version", Severity::ok), "Valkey 8.1.1"));
    CHECK(find(valkey, "redis.server", Severity::warning) == nullptr);
    for (const auto& [info, name] : std::vector<std::pair<std::string, std::string>>{
             {"redis_version:7.4.0\r\ndragonfly_version:df-v1.40.1\r\n", "Dragonfly df-v1.40.1"},
             {"garnet_version:1.0.5\r\n", "Garnet 1.0.5"},
             {"redis_version:4.0.0\r\nkvrocks_version:2.10.1\r\n", "Kvrocks 2.10.1"},
             {"redis_version:7.2.4\r\nredict_version:7.3.0\r\n", "Redict 7.3.0"},
             {"redis_version:6.3.4\r\nmvcc_depth:0\r\n", "KeyDB 6.3.4"},
             {"", "neither Redis nor Valkey"}}) {
        CAPTURE(name);
        const auto found = of(info);
        CHECK(says(find(found, "redis.server", Severity::warning), name));
        CHECK(says(find(found, "redis.server", Severity::warning), "Valkey 8"));
        CHECK(find(found, "redis.version", Severity::ok) == nullptr);
    }
}

TEST_CASE("redis_node: Valkey's names for what it is are read as those of Redis") {
    const auto of = [](const std::string& mode) {
        return check_who_answers("INFO", bulk("redis_version:7.2.4\r\nvalkey_version:8.1.1\r\n"
                                              "server_mode:" +
                                              mode + "\r\nrole:master\r\n"));
    };
    CHECK(says(find(of("cluster"), "redis.mode"), "cluster: [redis://"));
    CHECK(says(find(of("sentinel"), "redis.mode"), "sentinel"));
    CHECK(find(of("standalone"), "redis.mode") == nullptr);
}

TEST_CASE("redis_node: a command that was renamed is no missing right") {
    const std::string unknown = "-ERR unknown command 'X', with args beginning with: 'secret'\r\n";
    const auto scripts = check_who_answers("EVALSHA", unknown);
    CHECK(says(find(scripts, "redis.commands"), "does not have: evalsha"));
    CHECK(says(find(scripts, "redis.commands"), "rename-command"));
    CHECK(find(scripts, "redis.rights") == nullptr);
    CHECK_FALSE(says(find(scripts, "redis.commands"), "secret"));
    CHECK(says(find(check_who_answers("PING", unknown), "redis.commands"), "ping"));
    CHECK(says(find(check_who_answers("INFO", unknown), "redis.settings", Severity::note),
               "rename-command"));
    CHECK(find(check_who_answers("ZADD", "-NOPERM no\r\n"), "redis.commands") == nullptr);
}

TEST_CASE("redis_node: a server of another kind is a fault that says where it belongs") {
    const auto as = [](const std::string& mode, const std::string& role) {
        return check_who_answers("INFO", bulk("redis_version:7.0.0\r\nredis_mode:" + mode +
                                              "\r\nrole:" + role + "\r\n"));
    };
    CHECK(says(find(as("cluster", "master"), "redis.mode"), "`cluster: "));
    CHECK(says(find(as("sentinel", "sentinel"), "redis.mode"), "store.redis.sentinel"));
    CHECK(says(find(as("standalone", "slave"), "redis.role"), "replica"));
}

TEST_CASE("redis_node: the fault of a server that does not serve says why") {
    const auto ping = [](const std::string& answer) { return check_who_answers("PING", answer); };
    CHECK(says(find(ping("-LOADING Redis is loading the dataset in memory\r\n"), "redis.answers"),
               "loading"));
    CHECK(says(find(ping("-BUSY Redis is busy running a script.\r\n"), "redis.answers"),
               "SCRIPT KILL"));
    CHECK(says(find(ping("-MASTERDOWN Link with MASTER is down\r\n"), "redis.role"), "replica"));
    CHECK(says(find(ping("-NOAUTH Authentication required.\r\n"), "redis.password"), "has none"));
    CHECK(
        says(find(ping("-ERR max number of clients reached\r\n"), "redis.answers"), "maxclients"));
    CHECK(says(find(ping("HTTP/1.1 400 Bad Request\r\n"), "redis.answers"), "protocol"));
    CHECK(says(find(ping(""), "redis.answers"), "no answer in time"));
}

TEST_CASE("redis_node: writes that the server refuses to every user are no missing right") {
    const auto set = [](const std::string& answer) { return check_who_answers("SET", answer); };
    CHECK(says(find(set("-OOM command not allowed\r\n"), "redis.writes"), "maxmemory"));
    CHECK(says(find(set("-MISCONF Redis is configured\r\n"), "redis.writes"), "disk"));
    CHECK(says(find(set("-NOREPLICAS Not enough\r\n"), "redis.writes"), "replicas"));
    CHECK(says(find(set("-READONLY You can't\r\n"), "redis.writes"), "replica"));
    CHECK(find(set("-OOM command not allowed\r\n"), "redis.rights") == nullptr);
}

TEST_CASE("redis_node: one that is loading, busy or moving meanwhile is not taken for a right") {
    for (const char* command : {"INFO", "SELECT", "EVALSHA", "ZADD"}) {
        CAPTURE(command);
        const auto busy = check_who_answers(command, "-BUSY Redis is busy\r\n");
        CHECK(says(find(busy, "redis.answers"), "SCRIPT KILL"));
        CHECK(find(busy, "redis.rights") == nullptr);
        CHECK(find(busy, "redis.database") == nullptr);
    }
    CHECK(says(find(check_who_answers("ZADD", "-LOADING it\r\n"), "redis.answers"), "loading"));
    // The rights are complete, and the server then refuses a charge of several keys.
    int scripts = 0;
    Served moving([&](const Words& words) {
        if (words[0] != "EVALSHA") return willing(words);
        return std::string(++scripts == 1 ? "-NOSCRIPT no\r\n" : "-TRYAGAIN Multiple keys\r\n");
    });
    const auto found = check(moving);
    CHECK(says(find(found, "redis.writes"), "moving"));
    CHECK(find(found, "redis.scripts") == nullptr);
}

TEST_CASE("redis_node: every key that is written expires by itself") {
    Served served([](const Words& words) {
        const bool removes = words[0] == "PEXPIRE" || words[0] == "EXPIRE" || words[0] == "ZREM";
        return removes || words[0] == "SET" ? std::string("-NOPERM no\r\n") : willing(words);
    });
    CHECK(says(find(check(served), "redis.rights"), "set, pexpire, expire, zrem"));
    for (const Words& words : served.stopped().seen) {
        // Neither makes a key that is not there.
        if (words[0] == "ZADD") CHECK(words[2] == "XX");
        if (words[0] == "SETRANGE") CHECK(words[3].empty());
    }
}

TEST_CASE("redis_node: a server that repeats the password does not have it shown") {
    const auto answered = [](const std::string& command, const std::string& answer) {
        Served served(
            [&](const Words& words) { return words[0] == command ? answer : willing(words); });
        return check(served, "", {}, {}, ":pw-secret@");
    };
    const std::string error = "-ERR I do not like pw-secret\r\n";
    for (const char* command : {"AUTH", "PING", "CONFIG", "SELECT", "SCRIPT", "EVALSHA", "ZADD"}) {
        CAPTURE(command);
        const Findings found = answered(command, error);
        for (const Finding& finding : found.list()) {
            CHECK((finding.what + finding.advice).find("secret") == std::string::npos);
        }
    }
    CHECK(says(find(answered("AUTH", error), "redis.password"), "I do not like ***"));
    CHECK(says(find(answered("INFO", bulk("redis_version:7.0-pw-secret\r\n")), "redis.version",
                    Severity::ok),
               "7.0-***"));
}

TEST_CASE("redis_node: a clock that is an hour ahead is a warning") {
    const auto found = check_who_answers("TIME", time_answer(1h));
    CHECK(says(find(found, "redis.clock", Severity::warning), "ahead of ours"));
    for (const char* odd : {"*0\r\n", "*2\r\n+x\r\n+y\r\n", "+OK\r\n", "*2\r\n:-1\r\n:0\r\n",
                            "*2\r\n+999999999999999999\r\n+0\r\n"}) {
        CAPTURE(odd);
        CHECK(find(check_who_answers("TIME", odd), "redis.clock", Severity::warning) == nullptr);
    }
}

TEST_CASE("redis_node: `clock: local` does without TIME") {
    Served served([](const Words& words) {
        return words[0] == "TIME" ? std::string("-NOPERM no\r\n") : willing(words);
    });
    CHECK(find(check(served), "redis.rights") != nullptr);
    CHECK(find(check(served, ", clock: local"), "redis.rights") == nullptr);
}

TEST_CASE("redis_node: a database that is not there is a fault") {
    CHECK(says(
        find(check_who_answers("SELECT", "-ERR DB index is out of range\r\n"), "redis.database"),
        "database 1"));
}

TEST_CASE("redis_node: the answer of a script has to be a verdict") {
    CHECK(says(find(check_who_answers("EVALSHA", "+nonsense\r\n"), "redis.scripts"),
               "its answer is not a verdict"));
    CHECK(says(find(check_who_answers("EVALSHA", "-ERR Error running script\r\n"), "redis.rights"),
               "evalsha"));
    CHECK(
        says(find(check_who_answers("SCRIPT", "+0123\r\n"), "redis.scripts"), "cannot be loaded"));
}

TEST_CASE("redis_node: a server that falls silent ends its check, not the doctor") {
    Served served(
        [](const Words& words) { return words[0] == "ZADD" ? std::string() : willing(words); });
    const auto began = std::chrono::steady_clock::now();
    CHECK(says(find(check(served), "redis.answers"), "stopped answering"));
    CHECK(std::chrono::steady_clock::now() - began < 2s);
}

TEST_CASE("redis_node: in a cluster, what is written is in the slots of the node") {
    Served served(willing);
    check(served, "", RedisNode::Kind::cluster_node, {{77, 77}});
    CHECK(served.stopped().count("SET") > 0);
    CHECK(served.redis.count("ASKING") == 1);
    for (const Words& words : served.redis.seen) {
        if (words[0] != "SET" && words[0] != "ZADD") continue;
        const std::size_t tag = words[1].find('{') + 1;
        const std::string_view key = words[1];
        CHECK(redis::slot_of_tag(key.substr(tag, key.find('}') - tag)) == 77);
    }
}

}  // namespace tidegate::doctor::redis_node_test

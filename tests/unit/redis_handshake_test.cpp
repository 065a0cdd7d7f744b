#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "redis/client.hpp"
#include "redis/resp.hpp"
#include "redis/sentinels.hpp"
#include "unit/redis_asker.hpp"

namespace tidegate::redis::handshake_test {
namespace {

using namespace std::chrono_literals;

Reply ok() {
    return {Reply::Kind::string, "OK", 0};
}

Reply error(std::string_view text) {
    return {Reply::Kind::error, text, 0};
}

ClientOptions options_of(const std::string& password, int database) {
    ClientOptions options;
    options.password = password;
    options.database = database;
    options.scripts = {&kScript};
    options.absent_key = "tg:{absent}";
    return options;
}

// The commands of a handshake whose answers are all OK.
std::vector<std::string> commands_of(const ClientOptions& options, bool after_replica = false,
                                     bool is_down = false) {
    Handshake handshake(options, after_replica);
    std::vector<std::string> commands;
    while (auto step = handshake.next(is_down)) {
        commands.push_back(step->command);
        CHECK_FALSE(handshake.on_reply(ok()));
    }
    return commands;
}

// What the answer to the first command means.
std::optional<RedisConnectFault> fault_of(const ClientOptions& options, const Reply& reply) {
    Handshake handshake(options, false);
    REQUIRE(handshake.next(false));
    return handshake.on_reply(reply);
}

bool mentions(const std::optional<RedisConnectFault>& fault, std::string_view part) {
    return fault && fault->message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("handshake: password, database and scripts, in this order") {
    auto options = options_of("s3cret", 3);
    const std::string load = resp({"SCRIPT", "LOAD", kScript.text});
    CHECK(commands_of(options) ==
          std::vector{resp({"AUTH", "s3cret"}), resp({"SELECT", "3"}), load});
    options.username = "me";
    CHECK(commands_of(options).front() == resp({"AUTH", "me", "s3cret"}));
    CHECK(commands_of(options_of("", 0)) == std::vector{load});
    options.scripts.clear();
    options.in_cluster = true;
    CHECK(commands_of(options).back() == resp({"CLUSTER", "NODES"}));
}

TEST_CASE("handshake: a Redis that is down has to answer a PING as fast as a decision") {
    auto options = options_of("", 0);
    options.scripts.clear();
    CHECK(commands_of(options, false, true) == std::vector{resp({"PING"})});
    Handshake handshake(options, false);
    CHECK(handshake.next(true)->time == options.timeout);
    CHECK_FALSE(handshake.on_reply(error("NOPERM this user may not ping")));
    // It may come to count as down while the handshake is under way.
    options.scripts = {&kScript};
    Handshake late(options, false);
    CHECK(late.next(false)->time == kHandshakeTime);
    CHECK(late.next(true)->command == resp({"PING"}));
    const auto fault = late.on_reply(error("LOADING Redis is loading"));
    REQUIRE(fault);
    CHECK_FALSE(fault->refused);
}

TEST_CASE("handshake: a slow timeout holds for each command") {
    auto options = options_of("x", 0);
    options.timeout = 5s;
    Handshake handshake(options, false);
    CHECK(handshake.next(false)->time == 5s);
}

TEST_CASE("handshake: after a replica, the server has to take a write") {
    auto options = options_of("", 0);
    options.scripts.clear();
    CHECK(commands_of(options, true) == std::vector{resp({"PEXPIRE", "tg:{absent}", "1"})});
    CHECK(commands_of(options, true, true).size() == 2);
    Handshake handshake(options, true);
    REQUIRE(handshake.next(false));
    CHECK(mentions(handshake.on_reply(error("READONLY You can't write")), "READONLY"));
    CHECK_FALSE(handshake.on_reply(error("NOPERM no")));
}

TEST_CASE("handshake: a refusal of the server is named, and no secret shown") {
    const auto password = fault_of(options_of("s3cret", 0), error("WRONGPASS invalid pair"));
    CHECK(mentions(password, "the password was refused: WRONGPASS"));
    CHECK(password->refused);
    const auto echoed =
        fault_of(options_of("s3cret", 0),
                 error("ERR unknown command `AUTH`, with args beginning with: `s3cret`, "));
    CHECK(mentions(echoed, "unknown command"));
    CHECK_FALSE(mentions(echoed, "s3cret"));
    CHECK(mentions(fault_of(options_of("", 7), error("ERR DB index is out of range")),
                   "database 7 was refused"));
    const auto none = fault_of(options_of("", 0), error("NOAUTH Authentication required."));
    CHECK(mentions(none, "it wants a password, and none is configured"));
    CHECK(none->refused);
    auto options = options_of("", 0);
    options.rights = "+all";
    CHECK(mentions(
        fault_of(options, error("NOPERM no")),
        "the script count was refused: NOPERM no; give its Redis user these rights: +all"));
    CHECK(mentions(fault_of(options, error("ERR unknown command 'SCRIPT', with args beginning "
                                           "with: 'LOAD'")),
                   "remove its `rename-command`"));
    CHECK(fault_of(options, error("ERR unknown command 'SCRIPT'"))->refused);
}

TEST_CASE("handshake: a server that is not ready yet does not refuse us") {
    const auto fault = fault_of(options_of("", 0), error("LOADING Redis is loading"));
    REQUIRE(fault);
    CHECK_FALSE(fault->refused);
}

TEST_CASE("handshake: a master that sentinels name has to say that it is one") {
    auto options = options_of("", 0);
    SentinelOptions sentinels;
    sentinels.master = "mymaster";
    sentinels.nodes = {{"127.0.0.1", 1}};
    options.master_watch = std::make_shared<MasterWatch>(sentinels);
    Handshake handshake(options, false);
    CHECK(handshake.next(false)->command == resp({"ROLE"}));
    CHECK_FALSE(handshake.is_master());
    CHECK(mentions(handshake.on_reply({Reply::Kind::array, "slave", 0}), "its role is `slave`"));
    CHECK(handshake.on_reply({Reply::Kind::string, "master", 0}));
    CHECK_FALSE(handshake.is_master());
    CHECK_FALSE(handshake.on_reply({Reply::Kind::array, "master", 0}));
    CHECK(handshake.is_master());
    CHECK(handshake.next(false)->command == resp({"SCRIPT", "LOAD", kScript.text}));
}

}  // namespace tidegate::redis::handshake_test

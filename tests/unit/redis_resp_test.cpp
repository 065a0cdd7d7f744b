#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "redis/resp.hpp"

namespace tidegate::redis::resp_test {

namespace {

RespValue read(const std::string& bytes) {
    RespReader reader;
    REQUIRE(reader.feed(bytes));
    auto reply = reader.next();
    REQUIRE(reply);
    return *reply;
}

constexpr const char* kNested =
    "*3\r\n*4\r\n$4\r\nname\r\n$1\r\na\r\n$6\r\nquorum\r\n:2\r\n*0\r\n*2\r\n*1\r\n+x\r\n$-1\r\n";

}  // namespace

TEST_CASE("resp: every kind is read") {
    CHECK(read("+OK\r\n").text == "OK");
    CHECK(read("$3\r\na\r\n\r\n").text == "a\r\n");
    CHECK(read(":-7\r\n").integer == -7);
    CHECK(read(":7\r\n").text == "7");
    CHECK(read("$-1\r\n").kind == RespValue::Kind::nil);
    CHECK(read("*-1\r\n").kind == RespValue::Kind::nil);
    CHECK(read("*0\r\n").kind == RespValue::Kind::list);
    CHECK(read("-NOPERM no\r\n").is_error("NOPERM"));
    CHECK_FALSE(read("+NOPERM no\r\n").is_error("NOPERM"));
}

TEST_CASE("resp: lists in lists keep what is theirs, wherever the bytes are cut") {
    const std::string bytes = kNested;
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
        RespReader reader;
        REQUIRE(reader.feed(bytes.substr(0, cut)));
        auto reply = reader.next();
        CHECK(reply.has_value() == (cut == bytes.size()));
        if (!reply) {
            REQUIRE(reader.feed(bytes.substr(cut)));
            reply = reader.next();
        }
        REQUIRE(reply);
        REQUIRE(reply->items.size() == 3);
        CHECK(reply->items[0].value_of("name") == "a");
        CHECK(reply->items[0].value_of("quorum") == "2");
        CHECK(reply->items[0].value_of("missing").empty());
        CHECK(reply->items[1].items.empty());
        CHECK(reply->items[2].items[0].items[0].text == "x");
        CHECK(reply->items[2].items[1].kind == RespValue::Kind::nil);
    }
}

TEST_CASE("resp: replies come one after the other") {
    RespReader reader;
    REQUIRE(reader.feed("+a\r\n+b\r\n+"));
    CHECK(reader.next()->text == "a");
    CHECK(reader.next()->text == "b");
    CHECK_FALSE(reader.next());
    REQUIRE(reader.feed("c\r\n"));
    CHECK(reader.next()->text == "c");
}

TEST_CASE("resp: a list that claims to be huge takes no memory for it") {
    RespReader reader;
    REQUIRE(reader.feed("*2147483647\r\n+a\r\n"));
    CHECK_FALSE(reader.next());
}

TEST_CASE("resp: lists without an end are refused") {
    RespReader reader;
    std::string bytes;
    for (int i = 0; i < 100; ++i) bytes += "*1\r\n";
    REQUIRE(reader.feed(bytes));
    CHECK_FALSE(reader.next());
    CHECK(reader.is_broken());
}

TEST_CASE("resp: more than any reply needs is refused") {
    RespReader long_text;
    CHECK_FALSE(long_text.feed(std::string(2 << 20, 'x')));
    CHECK(long_text.is_broken());
    RespReader many;
    std::string values = "*100000\r\n";
    for (int i = 0; i < 20'000; ++i) values += ":1\r\n";
    REQUIRE(many.feed(values));
    CHECK_FALSE(many.next());
    CHECK(many.is_broken());
}

TEST_CASE("resp: bytes that are not RESP break the reader for good") {
    RespReader reader;
    REQUIRE(reader.feed("HTTP/1.1 400 Bad Request\r\n"));
    CHECK_FALSE(reader.next());
    CHECK(reader.is_broken());
    CHECK_FALSE(reader.feed("+OK\r\n"));
}

TEST_CASE("resp: types of a newer protocol are values or break the reader") {
    for (const char* bytes : {",1.5\r\n", "#t\r\n", "_\r\n", "%1\r\n+a\r\n,1\r\n", "~1\r\n#f\r\n",
                              "(1\r\n", "=5\r\ntxt:a\r\n", ">1\r\n,1\r\n"}) {
        CAPTURE(bytes);
        RespReader reader;
        REQUIRE(reader.feed(bytes));
        const auto reply = reader.next();
        CHECK(reply.has_value() != reader.is_broken());
    }
}

TEST_CASE("resp: replies are read whole, one after the other, wherever they are cut") {
    using Kind = RespValue::Kind;
    const std::string bytes =
        "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n+OK\r\n*-1\r\n-NOAUTH who?\r\n"
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n$-1\r\n*0\r\n";
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
        RespReader reader;
        std::vector<RespValue> replies;
        for (const std::string_view piece :
             {std::string_view(bytes).substr(0, cut), std::string_view(bytes).substr(cut)}) {
            REQUIRE(reader.feed(piece));
            while (auto reply = reader.next()) replies.push_back(std::move(*reply));
        }
        REQUIRE(replies.size() == 7);
        REQUIRE(replies[0].items.size() == 2);
        CHECK(replies[0].items[0].text == "127.0.0.1");
        CHECK(replies[0].items[1].text == "6379");
        CHECK(replies[1].text == "OK");
        CHECK(replies[2].kind == Kind::nil);
        CHECK(replies[3].kind == Kind::error);
        CHECK(replies[3].text == "NOAUTH who?");
        REQUIRE(replies[4].items.size() == 3);
        CHECK(replies[4].items[2].text == "1");
        CHECK(replies[5].kind == Kind::nil);
        CHECK(replies[6].is_list());
        CHECK(replies[6].items.empty());
        CHECK_FALSE(reader.is_broken());
    }
}

TEST_CASE("resp: lists in lists that are huge together are refused") {
    RespReader reader;
    std::string bytes = "*10000\r\n";
    for (int i = 0; i < 10'000; ++i) bytes += "*2\r\n+a\r\n+b\r\n";
    CHECK(reader.feed(bytes));
    CHECK_FALSE(reader.next());
    CHECK(reader.is_broken());
}

TEST_CASE("resp: a text without an end does not fill the memory") {
    RespReader reader;
    CHECK(reader.feed("$1000000000\r\n"));
    const std::string piece(4'096, 'x');
    std::size_t taken = 0;
    while (reader.feed(piece) && taken < 10'000'000) {
        taken += piece.size();
        CHECK_FALSE(reader.next());
    }
    CHECK(taken < 2'000'000);
    CHECK(reader.is_broken());
}

TEST_CASE("resp: a command is written with the length of each word") {
    CHECK(resp({"SET", "a b", ""}) == "*3\r\n$3\r\nSET\r\n$3\r\na b\r\n$0\r\n\r\n");
    std::string out = "+OK\r\n";
    append_resp({"PING"}, out);
    CHECK(out == "+OK\r\n*1\r\n$4\r\nPING\r\n");
    CHECK(auth_command("", "pw") == resp({"AUTH", "pw"}));
    CHECK(auth_command("me", "pw") == resp({"AUTH", "me", "pw"}));
}

TEST_CASE(
    "error reply: an error that only a replica sends is recognised, also from inside a script") {
    CHECK(is_replica_error("READONLY You can't write against a read only replica."));
    CHECK(is_replica_error("MASTERDOWN Link with MASTER is down"));
    CHECK(
        is_replica_error("ERR Error running script (call to f_1): @user_script:1: "
                         "-READONLY You can't write against a read only replica."));
    CHECK_FALSE(is_replica_error("NOSCRIPT No matching script."));
    CHECK_FALSE(is_replica_error("ERR unknown command 'READONLY'"));
    CHECK_FALSE(is_replica_error(""));
}

TEST_CASE("error reply: a missing password is recognised, also in answer to a long command") {
    CHECK(wants_password("NOAUTH Authentication required."));
    CHECK(wants_password("ERR Protocol error: unauthenticated multibulk length"));
    CHECK_FALSE(wants_password("NOPERM this user has no permissions"));
    CHECK(has_no_password("ERR AUTH <password> called without any password configured"));
    CHECK(has_no_password("ERR Client sent AUTH, but no password is set"));
    CHECK_FALSE(has_no_password("WRONGPASS invalid username-password pair"));
}

TEST_CASE("error reply: a missing right is recognised, also from inside a script") {
    CHECK(is_denied("NOPERM this user has no permissions to run the 'ping' command"));
    CHECK(is_denied("ERR The user executing the script can't run this command or subcommand"));
    CHECK(is_denied("ERR ACL failure in script: User x has no permissions"));
    CHECK_FALSE(is_denied("ERR unknown command"));
}

TEST_CASE("error reply: a command that the server does not have is no missing right") {
    for (const char* error :
         {"ERR unknown command 'ZADD', with args beginning with: 'a' '1'",
          "ERR unknown subcommand 'LOAD'. Try SCRIPT HELP.",
          "ERR Unknown Redis command called from script script: 9bb2, on @user_script:1.",
          "ERR Unknown command called from script script: 9bb2, on @user_script:1.",
          "ERR Error running script (call to f_9bb2): @user_script:1: @user_script: 1: Unknown "
          "Redis command called from Lua script"}) {
        CHECK(lacks_command(error));
        CHECK_FALSE(is_denied(error));
    }
    CHECK_FALSE(lacks_command("NOPERM this user has no permissions to run the 'ping' command"));
    CHECK(
        is_too_old("ERR Error running script (call to f_9bb2): @user_script:1: @user_script: 1: "
                   "Write commands not allowed after non deterministic commands. Call "
                   "redis.replicate_commands() at the start of your script"));
}

TEST_CASE("error reply: a command that Redis did not carry out now is known, by its code alone") {
    for (const std::string error :
         {"READONLY You can't write against a read only replica.",
          "MASTERDOWN Link with MASTER is down", "LOADING Redis is loading the dataset in memory",
          "BUSY Redis is busy running a script.",
          "OOM command not allowed when used memory > 'maxmemory'.",
          "MISCONF Redis is configured to save RDB snapshots",
          "NOREPLICAS Not enough good replicas", "CLUSTERDOWN Hash slot not served",
          "TRYAGAIN Multiple keys request during rehashing", "MOVED 100 192.0.2.1:6379",
          "ASK 100 192.0.2.1:6379", "NOSCRIPT No matching script."}) {
        CAPTURE(error);
        CHECK(is_not_ready(error));
        CHECK(
            is_not_ready("ERR Error running script (call to f_9bb2): @user_script:1: "
                         "@user_script: 1: -" +
                         error));
    }
    for (const char* error :
         {"TIDEGATE unreadable state in tg:4:p:{user:: -OOM no}", "ERR -OOM no", "OOM",
          "BUSYGROUP no", "BUSYKEY no", "NOPERM this user has no permissions",
          "NOAUTH Authentication required.",
          "ERR Error running script (call to f_9bb2): @user_script:1: attempt to index -OOM no", "",
          "ERR Error running script"}) {
        CAPTURE(error);
        CHECK_FALSE(is_not_ready(error));
    }
}

TEST_CASE("error reply: a server that is not ready is distinguished from one that refuses") {
    for (const char* error : {"LOADING Redis is loading", "BUSY Redis is busy", "MASTERDOWN Link",
                              "ERR max number of clients reached",
                              "OOM command not allowed when used memory > 'maxmemory'."}) {
        CHECK(is_temporary(error));
        CHECK_FALSE(is_access_error(error));
    }
    for (const char* error : {"NOAUTH Authentication required.", "WRONGPASS invalid", "NOPERM no",
                              "ERR invalid password", "ERR AUTH <password> called"}) {
        CHECK(is_access_error(error));
        CHECK_FALSE(is_temporary(error));
    }
}

TEST_CASE("error reply: arguments that a server repeats are not shown, nor more than fits a line") {
    CHECK(shown_error("ERR unknown command `AUTH`, with args beginning with: `secret`, ") ==
          "ERR unknown command `AUTH`");
    CHECK(shown_error(std::string(1'000, 'x')).size() == 200);
}

}  // namespace tidegate::redis::resp_test

#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "redis/sentinel.hpp"

namespace tidegate::redis {
namespace {

using namespace std::chrono_literals;
using Kind = SentinelReply::Kind;
using Order = std::vector<std::size_t>;

SentinelReply read(std::string_view bytes) {
    SentinelReader reader;
    REQUIRE(reader.feed(bytes));
    auto reply = reader.next();
    REQUIRE(reply);
    return std::move(*reply);
}

SentinelReply list(std::vector<std::string> items) {
    return {Kind::list, {}, std::move(items)};
}

SentinelReply message(std::string text, std::string channel = "+switch-master") {
    return list({"message", std::move(channel), std::move(text)});
}

SentinelOrder::Time at(std::chrono::milliseconds time) {
    return SentinelOrder::Time(1h + time);
}

}  // namespace

TEST_CASE("sentinel: replies are read whole, one after the other, wherever they are cut") {
    const std::string bytes =
        "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n+OK\r\n*-1\r\n-NOAUTH who?\r\n"
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n$-1\r\n*0\r\n";
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
        SentinelReader reader;
        std::vector<SentinelReply> replies;
        for (const std::string_view piece :
             {std::string_view(bytes).substr(0, cut), std::string_view(bytes).substr(cut)}) {
            REQUIRE(reader.feed(piece));
            while (auto reply = reader.next()) replies.push_back(std::move(*reply));
        }
        REQUIRE(replies.size() == 7);
        CHECK(replies[0].kind == Kind::list);
        CHECK(replies[0].items == std::vector<std::string>{"127.0.0.1", "6379"});
        CHECK(replies[1].text == "OK");
        CHECK(replies[2].kind == Kind::nil);
        CHECK(replies[3].kind == Kind::error);
        CHECK(replies[3].text == "NOAUTH who?");
        CHECK(replies[4].items == std::vector<std::string>{"subscribe", "c", "1"});
        CHECK(replies[5].kind == Kind::nil);
        CHECK(replies[6].items.empty());
        CHECK_FALSE(reader.is_broken());
    }
}

TEST_CASE("sentinel: of a list in a list the first two are kept") {
    const auto reply = read(
        "*2\r\n*3\r\n+name\r\n+a\r\n+more\r\n*4\r\n+name\r\n+b\r\n*3\r\n+x\r\n+y\r\n+z\r\n+q\r\n");
    CHECK(reply.items == std::vector<std::string>{"name", "a", "name", "b"});
}

TEST_CASE("sentinel: what is no answer ends the reading, and does not fill the memory") {
    SUBCASE("not RESP") {
        SentinelReader reader;
        CHECK(reader.feed("HTTP/1.1 400 Bad Request\r\n\r\n"));
        CHECK_FALSE(reader.next());
        CHECK(reader.is_broken());
        CHECK_FALSE(reader.feed("+OK\r\n"));
    }
    SUBCASE("a list that is said to be huge") {
        SentinelReader reader;
        CHECK(reader.feed("*2000000000\r\n"));
        CHECK_FALSE(reader.next());
        CHECK(reader.is_broken());
    }
    SUBCASE("lists in lists that are huge together") {
        SentinelReader reader;
        std::string bytes = "*1000\r\n";
        for (int i = 0; i < 1000; ++i) bytes += "*2\r\n+a\r\n+b\r\n";
        CHECK(reader.feed(bytes));
        CHECK_FALSE(reader.next());
        CHECK(reader.is_broken());
    }
    SUBCASE("a text without an end") {
        SentinelReader reader;
        CHECK(reader.feed("$1000000000\r\n"));
        const std::string piece(4'096, 'x');
        std::size_t taken = 0;
        while (reader.feed(piece) && taken < 10'000'000) {
            taken += piece.size();
            CHECK_FALSE(reader.next());
        }
        CHECK(taken < 1'000'000);
        CHECK(reader.is_broken());
    }
    SUBCASE("lists without an end") {
        SentinelReader reader;
        std::string bytes;
        for (int i = 0; i < 100; ++i) bytes += "*1\r\n";
        CHECK(reader.feed(bytes));
        CHECK_FALSE(reader.next());
        CHECK(reader.is_broken());
    }
}

TEST_CASE("sentinel: a master's address is a host and a port, or it is none") {
    CHECK(master_of(list({"127.0.0.1", "6379"})) == MasterAddress{"127.0.0.1", 6379});
    CHECK(master_of(list({"::1", "1"}))->to_string() == "[::1]:1");
    CHECK(master_of(list({"redis.internal", "65535"}))->to_string() == "redis.internal:65535");
    for (const auto& bad :
         {list({}), list({"127.0.0.1"}), list({"a", "1", "2"}), list({"", "1"}), list({"a", "0"}),
          list({"a", "65536"}), list({"a", "-1"}), list({"a", "1x"}), list({"a", ""}),
          list({"a b", "1"}), list({"a\r\n", "1"}), list({std::string(254, 'a'), "1"}),
          SentinelReply{Kind::text, "127.0.0.1", {}}, SentinelReply{}}) {
        CHECK_FALSE(master_of(bad));
    }
}

TEST_CASE("sentinel: a switch is taken from its message, if it is about this master") {
    const auto moved = switch_of(message("m 10.0.0.1 6379 10.0.0.2 6380"), "m");
    CHECK(moved == MasterAddress{"10.0.0.2", 6380});
    for (const auto& other :
         {message("other 10.0.0.1 6379 10.0.0.2 6380"), message("m 10.0.0.1 6379 10.0.0.2"),
          message("m 10.0.0.1 6379 10.0.0.2 6380 "), message("m 10.0.0.1 6379 10.0.0.2 6380 x"),
          message("m 10.0.0.1 6379 10.0.0.2 x"), message("m  10.0.0.1 6379 10.0.0.2 6380"),
          message(""), message("m"), message("m 10.0.0.1 6379 10.0.0.2 6380", "+sdown"),
          list({"pong", ""}), list({"subscribe", "+switch-master", "1"}), SentinelReply{}}) {
        CHECK_FALSE(switch_of(other, "m"));
    }
}

TEST_CASE("sentinel: who asks for the wrong master is told of the right ones") {
    CHECK(unknown_master("mymastr", list({"name", "mymaster"})) ==
          "it knows no master `mymastr`: it watches `mymaster`");
    CHECK(unknown_master("m", list({"name", "a", "name", "b"})) ==
          "it knows no master `m`: it watches `a`, `b`");
    CHECK(unknown_master("m", list({})) == "it knows no master `m`: it watches none");
    CHECK(unknown_master("m", SentinelReply{}) == "it knows no master `m`");
    std::vector<std::string> many;
    for (int i = 0; i < 50; ++i) many.insert(many.end(), {"name", "m" + std::to_string(i)});
    CHECK(unknown_master("m", list(many)) ==
          "it knows no master `m`: it watches `m0`, `m1`, `m2`, `m3`, `m4` and others");
}

TEST_CASE("sentinel: what only a replica answers is known, also from inside a script") {
    CHECK(is_replica_error("READONLY You can't write against a read only replica."));
    CHECK(is_replica_error("MASTERDOWN Link with MASTER is down"));
    CHECK(
        is_replica_error("ERR Error running script (call to f_1): @user_script:1: "
                         "-READONLY You can't write against a read only replica."));
    CHECK_FALSE(is_replica_error("NOSCRIPT No matching script."));
    CHECK_FALSE(is_replica_error("ERR unknown command 'READONLY'"));
    CHECK_FALSE(is_replica_error(""));
}

TEST_CASE("sentinel: they are asked in turn, those that lately failed after the others") {
    SentinelOrder order(3, 7);
    CHECK(order.next(at(0ms)) == Order{1, 2, 0});
    CHECK(order.next(at(0ms)) == Order{2, 0, 1});
    order.failed(0, at(0ms));
    CHECK(order.next(at(1ms)) == Order{1, 2, 0});
    CHECK(order.next(at(1ms)) == Order{2, 1, 0});
    order.failed(1, at(1ms));
    order.failed(2, at(1ms));
    CHECK(order.next(at(2ms)).size() == 3);
    order.answered(1);
    CHECK(order.next(at(2ms)).front() == 1);
    CHECK(order.next(at(20s)).size() == 3);
    CHECK(order.next(at(20s)) == Order{0, 1, 2});
}

}  // namespace tidegate::redis

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "redis/sentinel.hpp"

namespace tidegate::redis::sentinel_test {
namespace {

using namespace std::chrono_literals;
using Kind = RespValue::Kind;
using Order = std::vector<std::size_t>;

RespValue text(std::string words) {
    return {.kind = Kind::text, .text = std::move(words)};
}

RespValue list(const std::vector<std::string>& items) {
    RespValue reply{.kind = Kind::list};
    for (const std::string& item : items) reply.items.push_back(text(item));
    return reply;
}

// The answer to SENTINEL MASTERS.
RespValue masters(const std::vector<std::string>& names) {
    RespValue reply{.kind = Kind::list};
    for (const std::string& name : names) {
        reply.items.push_back(list({"name", name, "ip", "127.0.0.1"}));
    }
    return reply;
}

RespValue message(const std::string& words, const std::string& channel = "+switch-master") {
    return list({"message", channel, words});
}

SentinelOrder::Time at(std::chrono::milliseconds time) {
    return SentinelOrder::Time(1h + time);
}

}  // namespace

TEST_CASE("sentinel: a master's address is a host and a port, or it is none") {
    CHECK(master_of(list({"127.0.0.1", "6379"})) == NodeAddress{"127.0.0.1", 6379});
    CHECK(master_of(list({"::1", "1"}))->to_string() == "[::1]:1");
    CHECK(master_of(list({"redis.internal", "65535"}))->to_string() == "redis.internal:65535");
    for (const auto& bad :
         {list({}), list({"127.0.0.1"}), list({"a", "1", "2"}), list({"", "1"}), list({"a", "0"}),
          list({"a", "65536"}), list({"a", "-1"}), list({"a", "1x"}), list({"a", ""}),
          list({"a b", "1"}), list({"a\r\n", "1"}), list({std::string(254, 'a'), "1"}),
          text("127.0.0.1"), RespValue{}}) {
        CHECK_FALSE(master_of(bad));
    }
}

TEST_CASE("sentinel: a switch is taken from its message, if it is about this master") {
    const auto moved = switch_of(message("m 10.0.0.1 6379 10.0.0.2 6380"), "m");
    CHECK(moved == NodeAddress{"10.0.0.2", 6380});
    for (const auto& other :
         {message("other 10.0.0.1 6379 10.0.0.2 6380"), message("m 10.0.0.1 6379 10.0.0.2"),
          message("m 10.0.0.1 6379 10.0.0.2 6380 "), message("m 10.0.0.1 6379 10.0.0.2 6380 x"),
          message("m 10.0.0.1 6379 10.0.0.2 x"), message("m  10.0.0.1 6379 10.0.0.2 6380"),
          message(""), message("m"), message("m 10.0.0.1 6379 10.0.0.2 6380", "+sdown"),
          list({"pong", ""}), list({"subscribe", "+switch-master", "1"}), RespValue{}}) {
        CHECK_FALSE(switch_of(other, "m"));
    }
}

TEST_CASE("sentinel: a wrong name of the master is answered with the right ones") {
    CHECK(unknown_master("mymastr", masters({"mymaster"})) ==
          "it knows no master `mymastr`: it watches `mymaster`");
    CHECK(unknown_master("m", masters({"a", "b"})) ==
          "it knows no master `m`: it watches `a`, `b`");
    CHECK(unknown_master("m", masters({})) == "it knows no master `m`: it watches none");
    CHECK(unknown_master("m", RespValue{}) == "it knows no master `m`");
    std::vector<std::string> many;
    for (int i = 0; i < 50; ++i) many.push_back("m" + std::to_string(i));
    CHECK(unknown_master("m", masters(many)) ==
          "it knows no master `m`: it watches `m0`, `m1`, `m2`, `m3`, `m4` and others");
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

}  // namespace tidegate::redis::sentinel_test

// The reader of a body of the check API, and its messages about malformed ones.
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "faces/check_call.hpp"

namespace tidegate::faces::check_call_test {
namespace {

CheckCall read(std::string_view body, bool reserves = false) {
    auto call = read_check_call(body, reserves);
    REQUIRE(call.has_value());
    return std::move(*call);
}

std::string fault(std::string_view body, bool reserves = false) {
    const auto call = read_check_call(body, reserves);
    return call.has_value() ? "" : call.error();
}

}  // namespace

TEST_CASE("check call: a policy, its identifiers and a cost") {
    const CheckCall call =
        read(R"({"policy":"p","identifiers":{"user":"alice","header:x-a":"b"},"cost":3})");
    CHECK(call.form == CheckCall::Form::one);
    REQUIRE(call.items.size() == 1);
    CHECK(call.items[0].policy == "p");
    CHECK(call.items[0].cost == 3);
    REQUIRE(call.items[0].identifiers.size() == 2);
    CHECK_FALSE(read(R"({"policy":"p"})").items[0].cost);
    CHECK(read(R"({"policy":"p","cost":0})").items[0].cost == 0);
    CHECK(read(R"({"policy":"p","cost":4294967295})").items[0].cost == 4'294'967'295);
    CHECK(fault(R"({"policy":"p","cost":4294967296})") ==
          "cost: write a whole number from 0 to 4294967295");
}

TEST_CASE("check call: a request has defaults") {
    const CheckItem item = read(R"({"request":{"path":"/"}})").items[0];
    CHECK(item.policy.empty());
    CHECK(item.request.method == "GET");
    CHECK(item.request.path == "/");
    CHECK(item.request.host == "localhost");
    CHECK_FALSE(item.request.from);
    const CheckItem whole =
        read(R"({"request":{"method":"PUT","path":"/a?b","host":"h","from":"::1",)"
             R"("headers":{"x-a":"b"}}})")
            .items[0];
    CHECK(whole.request.method == "PUT");
    CHECK(whole.request.path == "/a?b");
    CHECK(whole.request.from->to_string() == "::1");
    REQUIRE(whole.request.headers.size() == 1);
    CHECK(whole.request.headers[0].second == "b");
}

TEST_CASE("check call: a fault in a list names its place") {
    const CheckCall call = read(R"({"all":[{"policy":"a"},{"policy":"b","cost":2}]})");
    CHECK(call.form == CheckCall::Form::all);
    CHECK(call.items.size() == 2);
    CHECK(read(R"({"each":[{"policy":"a"}]})").form == CheckCall::Form::each);
    CHECK(fault(R"({"each":[{"policy":"a"},{}]})") ==
          "each[1]: write `policy` with `identifiers`, or `request`");
    CHECK(fault(R"({"all":[{"policy":"a","cost":-1}]})") ==
          "all[0].cost: write a whole number from 0 to 4294967295");
    CHECK(fault(R"({"all":[],"x":1})").starts_with("there is no member `x` here"));
    CHECK(fault(R"({"all":[]})") == "all: write a list of 1 to 100 questions");
    CHECK(fault(R"({"all":[{"policy":"a"}],"each":[{"policy":"a"}]})").find("`each`") !=
          std::string::npos);
}

TEST_CASE("check call: only a reservation has a time, and none is `each`") {
    CHECK(read(R"({"policy":"p"})", true).ttl == std::chrono::seconds{60});
    CHECK(read(R"({"policy":"p","ttl":"1s"})", true).ttl == std::chrono::seconds{1});
    CHECK(read(R"({"all":[{"policy":"p"}],"ttl":"10min"})", true).ttl == std::chrono::seconds{600});
    for (const std::string ttl : {"0s", "601s", "11min", "1h", "s", "1", "-1s", "1.5s", "9999s"}) {
        CAPTURE(ttl);
        CHECK(fault(R"({"policy":"p","ttl":")" + ttl + "\"}", true) ==
              "ttl: write a time from `1s` to `10min`");
    }
    CHECK_FALSE(fault(R"({"policy":"p","ttl":"1s"})").empty());
    CHECK_FALSE(fault(R"({"each":[{"policy":"p"}]})", true).empty());
}

TEST_CASE("check call: a value cannot end a line, and a name stands once") {
    CHECK(fault("{\"policy\":\"a\\nb\"}") == "policy: a control character cannot stand here");
    CHECK(fault("{\"request\":{\"path\":\"/a\\r\\nX: b\"}}").starts_with("request.path: "));
    for (const std::string without_path : {"{}", R"({"method":"GET","host":"h"})"}) {
        CHECK(fault("{\"request\":" + without_path + "}") ==
              "request: write the `path` of the request: `{\"path\": \"/v1/x\"}`");
        CHECK(fault("{\"each\":[{\"request\":" + without_path + "}]}")
                  .starts_with("each[0].request: write the `path`"));
    }
    CHECK(
        fault("{\"request\":{\"headers\":{\"a\":\"\\u0000\"}}}").starts_with("request.headers.a"));
    CHECK(fault("{\"request\":{\"headers\":{\"a: b\\r\\nc\":\"d\"}}}")
              .starts_with("request.headers: "));
    CHECK(fault(R"({"policy":"a","policy":"b"})").starts_with("the body is no JSON object: "));
    CHECK(fault("[1]").starts_with("the body is no JSON object: "));
    CHECK(fault(R"({"policy":"a","request":{}})") ==
          "write `policy` with `identifiers`, or `request`");
}

TEST_CASE("check call: a settlement is an id and a cost") {
    const auto call = read_settle_call(R"({"id":"abc","cost":7})");
    REQUIRE(call.has_value());
    CHECK(call->id == "abc");
    CHECK(call->cost == 7);
    CHECK_FALSE(read_settle_call(R"({"id":"abc"})").has_value());
    CHECK_FALSE(read_settle_call(R"({"cost":7})").has_value());
    CHECK_FALSE(read_settle_call(R"({"id":7,"cost":7})").has_value());
    CHECK_FALSE(read_settle_call(R"({"id":"a","cost":7,"more":1})").has_value());
}

}  // namespace tidegate::faces::check_call_test

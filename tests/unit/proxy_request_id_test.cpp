#include <string>

#include <doctest/doctest.h>

#include "proxy/exchange.hpp"

namespace tidegate::proxy::request_id_test {

TEST_CASE("request_id: the proxy takes an id from a trusted peer only, and only one token") {
    const auto id = [](const std::string& field, bool trusted) {
        const std::string bytes =
            "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: " + field + "\r\n\r\n";
        ask::Facts facts;
        facts.peer.trusted = trusted;
        facts.request_id = "made-here";
        REQUIRE(http::parse_request_head(bytes, {}, facts.head) == http::HeadFault::none);
        adopt_request_id(facts);
        return facts.request_id;
    };
    CHECK(id("theirs", true) == "theirs");
    CHECK(id("theirs", false) == "made-here");
    CHECK(id("two words", true) == "made-here");
    CHECK(id("", true) == "made-here");
    CHECK(id(std::string(128, 'a'), true) == std::string(128, 'a'));
    CHECK(id(std::string(129, 'a'), true) == "made-here");
    CHECK(id("one\r\nX-Request-Id: two", true) == "made-here");
}

}  // namespace tidegate::proxy::request_id_test

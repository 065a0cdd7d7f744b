#include <cstdint>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "http/max_forwards.hpp"

namespace tidegate::http::max_forwards_test {

namespace {

std::optional<std::uint64_t> read(const std::string& fields,
                                  const std::string& method = "OPTIONS") {
    const std::string bytes = method + " / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
    RequestHead head;
    REQUIRE(parse_request_head(bytes, {}, head) == HeadFault::none);
    return max_forwards(head);
}

}  // namespace

TEST_CASE("max_forwards: the number of an OPTIONS is read, in any case of the name") {
    CHECK(read("Max-Forwards: 10\r\n") == 10U);
    CHECK(read("max-forwards: 0\r\n") == 0U);
    CHECK(read("Max-Forwards: 007\r\n") == 7U);
    CHECK(read("Max-Forwards: 99999999999999999999999\r\n") ==
          std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("max_forwards: it says nothing in other methods, twice, or as anything but a number") {
    CHECK_FALSE(read("").has_value());
    CHECK_FALSE(read("Max-Forwards: 0\r\n", "GET").has_value());
    CHECK_FALSE(read("Max-Forwards: 0\r\nMax-Forwards: 0\r\n").has_value());
    for (const std::string value : {"", "-1", "+1", "1 0", "0x1", "ten", "1,2"}) {
        CAPTURE(value);
        CHECK_FALSE(read("Max-Forwards: " + value + "\r\n").has_value());
    }
}

}  // namespace tidegate::http::max_forwards_test

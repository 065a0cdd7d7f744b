#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "faces/https_location.hpp"

namespace tidegate::faces::https_location_test {
namespace {

// Where a request of `line` and the field Host goes.
std::string location(const std::string& line, const std::string& host, std::uint16_t port = 443) {
    const std::string bytes = line + " HTTP/1.1\r\n\r\n";
    http::RequestHead head;
    REQUIRE(http::parse_request_head(bytes, {}, head) == http::HeadFault::none);
    return https_location(head.authority.empty() ? std::string_view(host) : head.authority, port,
                          head);
}

}  // namespace

TEST_CASE("https_location: the target stays, and the listener's port takes the place of Host's") {
    CHECK(location("GET /", "api.example") == "https://api.example/");
    CHECK(location("GET /a%2Fb//c?d=/e?f&g", "api.example") ==
          "https://api.example/a%2Fb//c?d=/e?f&g");
    CHECK(location("GET /?", "api.example") == "https://api.example/?");
    CHECK(location("GET /", "api.example:8080") == "https://api.example/");
    CHECK(location("GET /", "api.example:") == "https://api.example/");
    CHECK(location("GET /", "api.example:80", 8443) == "https://api.example:8443/");
    CHECK(location("GET /", "api.example.", 8443) == "https://api.example.:8443/");
}

TEST_CASE("https_location: an address stays one, and an IPv6 address keeps its brackets") {
    CHECK(location("GET /", "192.0.2.1:80") == "https://192.0.2.1/");
    CHECK(location("GET /", "[2001:db8::1]") == "https://[2001:db8::1]/");
    CHECK(location("GET /", "[2001:db8::1]:80") == "https://[2001:db8::1]/");
    CHECK(location("GET /", "[2001:db8::1]:80", 8443) == "https://[2001:db8::1]:8443/");
}

TEST_CASE("https_location: of an absolute target the host counts, and not its scheme or port") {
    CHECK(location("GET http://other.example:80/x?y", "api.example") ==
          "https://other.example/x?y");
    CHECK(location("GET https://other.example:444/x", "api.example", 8443) ==
          "https://other.example:8443/x");
    CHECK(location("GET http://other.example", "api.example") == "https://other.example/");
    CHECK(location("GET http://other.example?y", "api.example") == "https://other.example/?y");
}

TEST_CASE("https_location: OPTIONS of the server itself has no path") {
    CHECK(location("OPTIONS *", "api.example:80") == "https://api.example");
    CHECK(location("OPTIONS http://api.example", "other.example", 8443) ==
          "https://api.example:8443");
    CHECK(location("OPTIONS /", "api.example") == "https://api.example/");
}

TEST_CASE("https_location: no target can move the host") {
    CHECK(location("GET //evil.example/", "api.example") == "https://api.example//evil.example/");
    CHECK(location("GET /\\evil.example", "api.example") == "https://api.example/\\evil.example");
    CHECK(location("GET /@evil.example", "api.example") == "https://api.example/@evil.example");
    CHECK(location("GET /%0d%0aSet-Cookie:a=b", "api.example") ==
          "https://api.example/%0d%0aSet-Cookie:a=b");
}

}  // namespace tidegate::faces::https_location_test

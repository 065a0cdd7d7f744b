#include <doctest/doctest.h>

#include "proxy/websocket_accept.hpp"

namespace tidegate::proxy::websocket_accept_test {

TEST_CASE("websocket_accept: the values that RFC 6455 states") {
    CHECK(websocket_accept("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    CHECK(websocket_accept("x3JJHMbDL1EzLkh9GBhXDw==") == "HSmrc0sMlYUkAGmm5OPpG2HaGWk=");
}

}  // namespace tidegate::proxy::websocket_accept_test

#include <string>

#include <doctest/doctest.h>

#include "doctor/redis_connection.hpp"

namespace tidegate::doctor::redis_connection_test {

TEST_CASE("shown error: a password that an old server repeats is not shown") {
    CHECK(shown_error("ERR unknown command `AUTH`, with args beginning with: `secret`, ", "") ==
          "`ERR unknown command `AUTH``");
    CHECK(shown_error("a\x1b[2J", "") == "`a\\x1b[2J`");
}

TEST_CASE("shown error: a password is not shown, however its server repeats it") {
    CHECK(shown_error("ERR what is AUTH secret? secretsecret", "secret") ==
          "`ERR what is AUTH ***? ******`");
    // A text that is cut off or escaped is hidden before that.
    CHECK(shown_error("ERR " + std::string(53, 'x') + "secret", "secret").find("sec") ==
          std::string::npos);
    CHECK(shown_error("ERR a\x1b", "a\x1b") == "`ERR ***`");
    CHECK(without_secret("any", "") == "any");
    CHECK(without_secret("", "any").empty());
}

}  // namespace tidegate::doctor::redis_connection_test

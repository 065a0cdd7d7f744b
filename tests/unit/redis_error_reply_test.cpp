#include <string>

#include <doctest/doctest.h>

#include "redis/resp.hpp"

namespace tidegate::redis::error_reply_test {

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

}  // namespace tidegate::redis::error_reply_test

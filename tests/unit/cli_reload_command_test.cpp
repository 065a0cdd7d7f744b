#include <doctest/doctest.h>

#include "cli/reload_command.hpp"

namespace tidegate::cli::reload_command_test {

TEST_CASE("reload command: what is in force, after the warnings") {
    CHECK(reload_text("{\"result\":\"ok\",\"generation\":7}\n") == "configuration 7 is in force\n");
    CHECK(reload_text(R"({"result":"ok","generation":2,"warnings":[)"
                      R"({"file":"t.yaml","line":3,"column":1,"message":"odd"}]})") ==
          "t.yaml:3:1: warning: odd\nconfiguration 2 is in force\n");
}

TEST_CASE("reload command: a refusal lists each fault, and what stays in force") {
    CHECK(reload_text(R"({"result":"refused","generation":1,"errors":[)"
                      R"({"file":"t.yaml","line":3,"column":9,"message":"one"},)"
                      R"({"file":"t.yaml","message":"two"}]})") ==
          "t.yaml:3:9: error: one\nt.yaml: error: two\n"
          "2 errors: the proxy goes on with configuration 1\n");
}

TEST_CASE("reload command: an answer of another server is no answer") {
    for (const char* body : {"", "ok", "[]", "{}", R"({"result":"ok"})", "{\"result\":"}) {
        CHECK(reload_text(body).empty());
    }
}

TEST_CASE("health command: only an answer of the admin listener has a readiness") {
    CHECK(readiness_of(R"({"status":"ready","store":{"kind":"redis","state":"up"}})") == "ready");
    CHECK(readiness_of(R"({"status":"draining"})") == "draining");
    for (const char* body :
         {"", "ok", "[]", "{}", R"({"status":429,"detail":"The request is over a limit."})",
          R"({"status":"UP"})", R"({"status":"ok"})"}) {
        CAPTURE(body);
        CHECK(readiness_of(body).empty());
    }
}

}  // namespace tidegate::cli::reload_command_test

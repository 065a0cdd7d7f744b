#include <doctest/doctest.h>

#include "config/environment.hpp"

namespace tidegate::config::environment_test {

namespace {

std::optional<std::string> environment(std::string_view name) {
    if (name == "A") return "alpha";
    if (name == "EMPTY") return "";
    if (name == "TRICK") return "${A} $$ {x: y}";
    return std::nullopt;
}

std::string expanded(std::string_view text) {
    auto out = expand(text, environment);
    return out ? out->text : "fault: " + out.error();
}

}  // namespace

TEST_CASE("expand: a variable is replaced, wherever it stands") {
    CHECK(expanded("") == "");
    CHECK(expanded("plain") == "plain");
    CHECK(expanded("${A}") == "alpha");
    CHECK(expanded("<${A}-${A}>") == "<alpha-alpha>");
    CHECK(expanded("${EMPTY}") == "");
}

TEST_CASE("expand: a default replaces an unset or empty variable") {
    CHECK(expanded("${NONE:-x}") == "x");
    CHECK(expanded("${NONE:-}") == "");
    CHECK(expanded("${EMPTY:-x}") == "x");
    CHECK(expanded("${A:-x}") == "alpha");
    CHECK(expanded("${NONE:-http://127.0.0.1:3000}") == "http://127.0.0.1:3000");
}

TEST_CASE("expand: two dollars are one, a lone one stays") {
    CHECK(expanded("$$") == "$");
    CHECK(expanded("$${A}") == "${A}");
    CHECK(expanded("$$$${A}") == "$${A}");
    CHECK(expanded("^/a$") == "^/a$");
    CHECK(expanded("$A") == "$A");
}

TEST_CASE("expand: values of the environment are not expanded again") {
    CHECK(expanded("${TRICK}") == "${A} $$ {x: y}");
    CHECK(expanded("${NONE:-$$}") == "$$");
}

TEST_CASE("expand: an unset variable and a broken reference are faults") {
    CHECK(expanded("${NONE}") ==
          "fault: the environment variable `NONE` is not set; set it, or write a default: "
          "`${NONE:-...}`");
    for (const char* text : {"${", "${A", "${}", "${1A}", "${A B}", "${A-x}", "${A:=x}", "${ A}",
                             "${:-x}", "a ${A} ${"}) {
        CAPTURE(text);
        CHECK(expanded(text).starts_with("fault: "));
    }
}

}  // namespace tidegate::config::environment_test

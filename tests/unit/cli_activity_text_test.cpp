#include <string>

#include <doctest/doctest.h>

#include "cli/activity_text.hpp"

namespace tidegate::cli::activity_text_test {
namespace {

std::string top_of(const std::string& identifiers, const std::string& enabled = "true") {
    return R"({"by":"denials","enabled":)" + enabled +
           R"(,"names":1024,"seconds":87,"total":2000,"error_max":3,"identifiers":[)" +
           identifiers + "]}";
}

std::string denial_of(const std::string& id, const std::string& identifier) {
    return R"({"id":")" + id + R"(","time_ms":1764000600001,"request_id":"0f3c","identifier":")" +
           identifier +
           R"(","route":"search","policy":"p","limit":"p-1s","count":10,"quota":10,)"
           R"("retry_after_seconds":1})";
}

std::string denials_of(const std::string& denials) {
    return R"({"enabled":true,"left_out":0,"denials":[)" + denials + "]}";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

bool has_controls(const std::string& text) {
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < ' ' && c != '\n') return true;
    }
    return false;
}

TEST_CASE("activity_text: top is a table of what is certain and what is possible") {
    const auto top = top_text(top_of(R"({"identifier":"ip:203.0.113.7","count":500,"error":3})"));
    REQUIRE(top);
    CHECK(top->lists_any);
    CHECK_MESSAGE(has(top->text, "denials of the last 87s, identifiers counted 2000 times"),
                  top->text);
    CHECK_MESSAGE(has(top->text, "       500         503  ip:203.0.113.7"), top->text);
}

TEST_CASE("activity_text: top says when there is nothing, and when nothing is kept") {
    const auto none = top_text(top_of(""));
    REQUIRE(none);
    CHECK_FALSE(none->lists_any);
    CHECK_FALSE(has(none->text, "AT LEAST"));
    const auto off = top_text(top_of("", "false"));
    REQUIRE(off);
    CHECK(has(off->text, "`telemetry: {top: off}`"));
}

TEST_CASE("activity_text: denials are listed oldest first, each with its reason") {
    const auto all =
        denials_text(denials_of(denial_of("0-2", "ip:2") + "," + denial_of("0-1", "ip:1")));
    REQUIRE(all);
    REQUIRE(all->denials.size() == 2);
    const std::string& line = all->denials[0].line;
    CHECK(has(line, "ip:1 "));
    for (const char* part :
         {"2025-11-24T16:10:00.001Z", "p-1s", "10 of 10", "1s", "search", "0f3c"}) {
        CHECK_MESSAGE(has(line, part), line);
    }
    CHECK(all->denials[0].id != all->denials[1].id);
    CHECK(has(all->denials[1].json, R"("id":"0-2")"));
}

TEST_CASE("activity_text: names of clients do not command the terminal") {
    const std::string hostile = R"(user:\u001b[2J\u0007\r\n\u0000\u009b31m\u202e)";
    const auto top = top_text(top_of(R"({"identifier":")" + hostile + R"(","count":1,"error":0})"));
    REQUIRE(top);
    CHECK_FALSE(has_controls(top->text));
    CHECK_FALSE(has(top->text, "\u009b"));
    CHECK_FALSE(has(top->text, "\u202e"));
    const auto denials = denials_text(denials_of(denial_of("0-1", hostile)));
    REQUIRE(denials);
    CHECK_FALSE(has_controls(denials->denials[0].line));
    CHECK_FALSE(has(denials->denials[0].line, "\u202e"));
    CHECK_FALSE(has_controls(denials->denials[0].json));
}

TEST_CASE("activity_text: any other answer is refused") {
    for (const char* text : {"", "[]", "{}", R"({"enabled":true})",
                             R"({"enabled":true,"denials":[{"id":1}],"identifiers":[1]})"}) {
        CHECK_FALSE(top_text(text));
        CHECK_FALSE(denials_text(text));
    }
}

}  // namespace
}  // namespace tidegate::cli::activity_text_test

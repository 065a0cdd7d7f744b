#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "http/problem.hpp"

namespace tidegate::http {
namespace {

std::string body(const Problem& problem) {
    std::string out;
    append_problem(problem, out);
    return out;
}

std::string json(std::string_view text) {
    std::string out;
    append_json_string(text, out);
    return out;
}

TEST_CASE("problem: a plain one is about:blank with the phrase of its status") {
    Problem problem;
    problem.status = 404;
    CHECK(body(problem) == R"({"type":"about:blank","title":"Not Found","status":404})");
    problem.status = 599;
    CHECK(body(problem) == R"({"type":"about:blank","title":"Unknown","status":599})");
}

TEST_CASE("problem: an exceeded quota names its policies and when to return") {
    const std::vector<std::string_view> policies = {"per-client", "login/0"};
    Problem problem;
    problem.status = 429;
    problem.type = ProblemType::quota_exceeded;
    problem.detail = "Too many requests.";
    problem.request_id = "01hx";
    problem.violated_policies = policies;
    problem.retry_after_seconds = 3;
    CHECK(body(problem) ==
          R"({"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",)"
          R"("title":"Request cannot be satisfied as assigned quota has been exceeded",)"
          R"("status":429,"detail":"Too many requests.","request_id":"01hx",)"
          R"("violated-policies":["per-client","login/0"],"retry_after":3})");
}

TEST_CASE("problem: a retry after nothing at all is told, one that is unknown is not") {
    Problem problem;
    problem.status = 503;
    problem.retry_after_seconds = 0;
    CHECK(body(problem) ==
          R"({"type":"about:blank","title":"Service Unavailable","status":503,"retry_after":0})");
}

TEST_CASE("problem: JSON strings are escaped") {
    CHECK(json("") == R"("")");
    CHECK(json("a/b") == R"("a/b")");
    CHECK(json("\"\\") == R"("\"\\")");
    CHECK(json("\n\r\t\b\x01\x1f\x7f") == R"("\n\r\t\u0008\u0001\u001f\u007f")");
    CHECK(json(std::string_view("a\0b", 3)) == R"("a\u0000b")");
    CHECK(json("</script>") == R"("</script>")");
}

TEST_CASE("problem: UTF-8 passes, what only looks like it does not") {
    const std::string_view good[] = {"é",           "€", "𐍈", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf",
                                     "\xee\x80\x80"};
    for (const auto text : good) CHECK(json(text) == "\"" + std::string(text) + "\"");

    const std::string r = "\xef\xbf\xbd";
    CHECK(json("\x80") == "\"" + r + "\"");
    CHECK(json("\xff\xfe") == "\"" + r + r + "\"");
    CHECK(json("\xc3") == "\"" + r + "\"");                          // cut off
    CHECK(json("\xe2\x82") == "\"" + r + r + "\"");                  // cut off
    CHECK(json("\xc3\"") == "\"" + r + "\\\"\"");                    // must not eat the quote
    CHECK(json("\xc0\xaf") == "\"" + r + r + "\"");                  // overlong
    CHECK(json("\xe0\x80\xaf") == "\"" + r + r + r + "\"");          // overlong
    CHECK(json("\xf0\x80\x80\xaf") == "\"" + r + r + r + r + "\"");  // overlong
    CHECK(json("\xed\xa0\x80") == "\"" + r + r + r + "\"");          // a surrogate
    CHECK(json("\xf4\x90\x80\x80") == "\"" + r + r + r + r + "\"");  // above U+10FFFF
    CHECK(json("\xf5\x80\x80\x80") == "\"" + r + r + r + r + "\"");
}

TEST_CASE("problem: every status that is answered here has a title") {
    for (const int status : {400, 401, 403, 404, 408, 413, 414, 429, 431, 500, 501, 502, 503, 504})
        CHECK(status_title(status) != "Unknown");
    CHECK(status_title(200) == "OK");
    CHECK(status_title(0) == "Unknown");
    CHECK(status_title(-1) == "Unknown");
}

}  // namespace
}  // namespace tidegate::http

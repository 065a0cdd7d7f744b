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

TEST_CASE("problem: every status that is answered here has a title") {
    for (const int status : {400, 401, 403, 404, 408, 413, 414, 429, 431, 500, 501, 502, 503, 504})
        CHECK(status_title(status) != "Unknown");
    CHECK(status_title(200) == "OK");
    CHECK(status_title(0) == "Unknown");
    CHECK(status_title(-1) == "Unknown");
}

}  // namespace
}  // namespace tidegate::http

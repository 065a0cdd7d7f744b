#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "http/problem.hpp"

namespace tidegate::http::problem_test {
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

TEST_CASE("problem: a time of 0 to come back is stated, an unknown one is not") {
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
    CHECK(status_title(418) == "I'm a Teapot");
    CHECK(status_title(499) == "Unknown");
    CHECK(status_title(0) == "Unknown");
    CHECK(status_title(-1) == "Unknown");
}

TEST_CASE("problem: every registered status that a policy may answer has its name") {
    // The registry of the IANA, without what it calls unused.
    for (const int status : {400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413,
                             414, 415, 416, 417, 418, 421, 422, 423, 424, 425, 426, 428, 429, 431,
                             451, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511}) {
        CHECK_MESSAGE(status_title(status) != "Unknown", status);
    }
    for (const int status : {100, 101, 102, 103, 200, 201, 202, 203, 204, 205, 206,
                             207, 208, 226, 300, 301, 302, 303, 304, 305, 307, 308}) {
        CHECK_MESSAGE(status_title(status) != "Unknown", status);
    }
    CHECK(status_title(423) == "Locked");
    CHECK(status_title(507) == "Insufficient Storage");
}

std::string openai(const RateLimitError& error) {
    std::string out;
    append_openai_error(error, out);
    return out;
}

std::string anthropic(const RateLimitError& error) {
    std::string out;
    append_anthropic_error(error, out);
    return out;
}

TEST_CASE("problem: openai's error says which unit ran out, and when to try again") {
    CHECK(
        openai({.limit = "tokens-1min", .counts_tokens = true, .retry_after_seconds = 20}) ==
        R"({"error":{"message":"Rate limit reached: limit tokens-1min. Please try again in 20s.",)"
        R"("type":"tokens","param":null,"code":"rate_limit_exceeded"}})");
    CHECK(openai({.limit = "a\"b"}) ==
          R"({"error":{"message":"Rate limit reached: limit a\"b.",)"
          R"("type":"requests","param":null,"code":"rate_limit_exceeded"}})");
}

TEST_CASE("problem: openai's error says that a quota of a day or longer is used up") {
    CHECK(openai({.limit = "budget-1d",
                  .counts_tokens = true,
                  .is_quota = true,
                  .retry_after_seconds = 7200}) ==
          R"({"error":{"message":"You exceeded your current quota: limit budget-1d. )"
          R"(Please try again in 2h0m0s.",)"
          R"("type":"insufficient_quota","param":null,"code":"insufficient_quota"}})");
}

TEST_CASE("problem: anthropic's error has one type for all limits") {
    CHECK(anthropic({.limit = "requests-1min", .retry_after_seconds = 61}) ==
          R"({"type":"error","error":{"type":"rate_limit_error",)"
          R"("message":"Rate limit reached: limit requests-1min. Please try again in 1m1s."}})");
}

TEST_CASE("problem: a request that never passes has no time, and no used up quota") {
    const RateLimitError error{.limit = "tokens-1d",
                               .counts_tokens = true,
                               .is_quota = true,
                               .never = "This request would use 9 tokens of a quota of 5."};
    CHECK(openai(error) ==
          R"({"error":{"message":"Request too large. This request would use 9 tokens of a quota )"
          R"(of 5.","type":"tokens","param":null,"code":"rate_limit_exceeded"}})");
    CHECK(anthropic(error) ==
          R"({"type":"error","error":{"type":"rate_limit_error","message":"Request too large. )"
          R"(This request would use 9 tokens of a quota of 5."}})");
}

}  // namespace
}  // namespace tidegate::http::problem_test

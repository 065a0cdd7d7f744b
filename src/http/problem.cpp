#include "http/problem.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"
#include "http/ratelimit_fields.hpp"

namespace tidegate::http {
namespace {

constexpr std::string_view kQuotaExceededUri =
    "https://iana.org/assignments/http-problem-types#quota-exceeded";
// The title registered with that type.
constexpr std::string_view kQuotaExceededTitle =
    "Request cannot be satisfied as assigned quota has been exceeded";

// Sorted by number.
constexpr auto kTitles = std::to_array<std::pair<int, std::string_view>>({
    {100, "Continue"},
    {101, "Switching Protocols"},
    {102, "Processing"},
    {103, "Early Hints"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {207, "Multi-Status"},
    {208, "Already Reported"},
    {226, "IM Used"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {305, "Use Proxy"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {418, "I'm a Teapot"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {506, "Variant Also Negotiates"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
    {510, "Not Extended"},
    {511, "Network Authentication Required"},
});

// In the words of OpenAI, which programs search for the time.
void append_message(const RateLimitError& error, std::string& out) {
    if (!error.never.empty()) {
        std::string message = "Request too large. ";
        return append_json_string(message.append(error.never), out);
    }
    std::string message =
        error.is_quota ? "You exceeded your current quota: limit " : "Rate limit reached: limit ";
    message.append(error.limit).append(1, '.');
    if (error.retry_after_seconds > 0) {
        message += " Please try again in ";
        append_duration(error.retry_after_seconds, message);
        message += '.';
    }
    append_json_string(message, out);
}

}  // namespace

std::string_view status_title(int status) {
    const auto found =
        std::lower_bound(kTitles.begin(), kTitles.end(), status,
                         [](const auto& entry, int wanted) { return entry.first < wanted; });
    return found != kTitles.end() && found->first == status ? found->second : "Unknown";
}

// Written by hand, for each denied request gets one.
void append_problem(const Problem& problem, std::string& out) {
    constexpr std::size_t kUsualBytes = 512;
    out.reserve(out.size() + kUsualBytes);
    const bool quota = problem.type == ProblemType::quota_exceeded;
    out += R"({"type":)";
    append_json_string(quota ? kQuotaExceededUri : "about:blank", out);
    out += R"(,"title":)";
    // RFC 9457 section 4.2.1: the title of about:blank is the phrase of the status.
    append_json_string(quota ? kQuotaExceededTitle : status_title(problem.status), out);
    out += R"(,"status":)";
    append_number(problem.status, out);
    if (!problem.detail.empty()) {
        out += R"(,"detail":)";
        append_json_string(problem.detail, out);
    }
    if (!problem.request_id.empty()) {
        out += R"(,"request_id":)";
        append_json_string(problem.request_id, out);
    }
    if (!problem.violated_policies.empty()) {
        out += R"(,"violated-policies":)";
        char before = '[';
        for (const std::string_view name : problem.violated_policies) {
            out += before;
            before = ',';
            append_json_string(name, out);
        }
        out += ']';
    }
    if (problem.retry_after_seconds) {
        out += R"(,"retry_after":)";
        append_number(*problem.retry_after_seconds, out);
    }
    if (!problem.earliest.empty()) {
        out += R"(,"earliest":)";
        append_json_string(problem.earliest, out);
    }
    out += '}';
}

void append_openai_error(const RateLimitError& error, std::string& out) {
    std::string_view type = error.counts_tokens ? "tokens" : "requests";
    std::string_view code = "rate_limit_exceeded";
    if (error.is_quota && error.never.empty()) type = code = "insufficient_quota";
    out += R"({"error":{"message":)";
    append_message(error, out);
    out += R"(,"type":)";
    append_json_string(type, out);
    out += R"(,"param":null,"code":)";
    append_json_string(code, out);
    out += "}}";
}

void append_anthropic_error(const RateLimitError& error, std::string& out) {
    out += R"({"type":"error","error":{"type":"rate_limit_error","message":)";
    append_message(error, out);
    out += "}}";
}

}  // namespace tidegate::http

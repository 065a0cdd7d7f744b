// Bodies of the answers made here: problem details (RFC 9457), and errors as the libraries of
// OpenAI and Anthropic read them. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tidegate::http {

inline constexpr std::string_view kProblemContentType = "application/problem+json";

enum class ProblemType : std::uint8_t {
    plain,           // `about:blank`: the status says it all
    quota_exceeded,  // of draft-ietf-httpapi-ratelimit-headers
};

struct Problem {
    int status = 500;
    ProblemType type = ProblemType::plain;
    std::string_view detail;      // one sentence for a person; empty: left out
    std::string_view request_id;  // empty: left out
    std::span<const std::string_view> violated_policies;  // empty: left out
    std::optional<std::int64_t> retry_after_seconds;
    std::string_view earliest{};  // RFC 3339: a moment that would pass; empty: left out
};

// The reason phrase of RFC 9110 and its registry, of 418 that of RFC 2324; `Unknown` for a status
// that none of them names.
std::string_view status_title(int status);

// Appends a JSON object: type, title, status, then what `problem` has of detail, request_id,
// violated-policies, retry_after and earliest. Allocates nothing when `out` has room.
void append_problem(const Problem& problem, std::string& out);

// A refusal by a limit, as a provider of models says it.
struct RateLimitError {
    std::string_view limit;      // that refused: `tokens-1min`; perhaps with what is used of it
    bool counts_tokens = false;  // else requests
    // Its window is a day or longer: no pause helps that a program makes between two attempts.
    bool is_quota = false;
    std::int64_t retry_after_seconds = 0;  // 0: not known
    std::string_view never{};              // why such a request never passes; empty: it may
};

// Appends `{"error":{"message":"...","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`;
// of a quota, type and code are `insufficient_quota`, unless such a request never passes.
void append_openai_error(const RateLimitError& error, std::string& out);

// Appends `{"type":"error","error":{"type":"rate_limit_error","message":"..."}}`.
void append_anthropic_error(const RateLimitError& error, std::string& out);

}  // namespace tidegate::http

// What the admin listener answers, in words for a terminal. Nothing in them commands the terminal,
// whatever clients call themselves. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate::cli {

struct CountsText {
    std::string text;
    bool counted = false;  // whether anything was
};

// Of the answer to `/api/inspect`, or to `/api/reset`. Nothing if it is no such answer.
std::optional<CountsText> inspect_text(std::string_view json);
std::optional<CountsText> reset_text(std::string_view json);

struct UpstreamsText {
    std::string text;
    bool all_up = true;  // every server, and every name has led to one
};

// Of the answer to `/api/upstreams`: a table for each upstream, servers that are not up first.
// Nothing if it is no such answer.
std::optional<UpstreamsText> upstreams_text(std::string_view json);

// The sentence of an answer of problem details; empty if there is none.
std::string problem_detail(std::string_view json);

struct TopText {
    std::string text;
    bool lists_any = false;
};

// Of the answer to `/api/top`. Nothing if it is no such answer.
std::optional<TopText> top_text(std::string_view json);

struct DenialText {
    std::string id;    // no two denials have the same
    std::string line;  // of the table below denial_heading()
    std::string json;  // on one line
};

struct DenialsText {
    bool enabled = true;
    std::vector<DenialText> denials;  // oldest first
};

// Ends with a line feed, as each line does.
std::string denial_heading();
inline constexpr std::string_view kNotKept =
    "the configuration has `telemetry: {top: off}`: Tidegate keeps no names of clients";

// Of the answer to `/api/denials`. Nothing if it is no such answer.
std::optional<DenialsText> denials_text(std::string_view json);

// The word of the answer to `/readyz`: `ready`, `starting` or `draining`. Empty: not from
// Tidegate's admin listener.
std::string readiness_of(const std::string& body);

// What `POST /reload` answered, a line for each fault and warning. Empty: not from Tidegate.
std::string reload_text(const std::string& body);

}  // namespace tidegate::cli

// What the admin listener says of counts and upstreams, in words for a terminal. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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

}  // namespace tidegate::cli

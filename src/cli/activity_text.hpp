// What the admin listener says of clients (`/api/top`, `/api/denials`), in words for a terminal.
// Nothing in it commands the terminal, whatever clients call themselves. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate::cli {

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

}  // namespace tidegate::cli

// Writes nlohmann values as text. Pure.
//
// The library's writer is a template that takes the compiler long; this unit alone instantiates it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tidegate {

struct JsonStyle {
    int indent = -1;     // spaces; negative: all on one line
    bool ascii = false;  // anything else is escaped
    // Throws nlohmann's type_error for what is no UTF-8, which otherwise becomes U+FFFD.
    bool strict = false;
};

std::string json_text(const nlohmann::ordered_json& value, JsonStyle style = {});

}  // namespace tidegate

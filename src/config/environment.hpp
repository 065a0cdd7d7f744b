// `${NAME}` in scalars: the environment of the process in a configuration. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "config/config.hpp"

namespace tidegate::config {

// A type of its own, as Result<std::string, std::string> would be ambiguous.
struct Expanded {
    std::string text;
};

// Replaces `${NAME}` by the variable, `${NAME:-default}` by the default when the variable is unset
// or empty, `$$` by a dollar; any other dollar stays. What comes in is never expanded again. An
// error is a sentence that never shows a value.
Result<Expanded, std::string> expand(std::string_view text, Environment environment);

}  // namespace tidegate::config

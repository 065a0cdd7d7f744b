// The line for an API key that `tidegate keys new` prints.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace tidegate::cli {

// A line of a type of its own, as Result<std::string, std::string> would be ambiguous.
struct KeyLine {
    std::string text;
};

// The line for the file of keys: it holds the SHA-256 of `key`, not the key. Pure. The error says
// what names of users and tiers are.
Result<KeyLine, std::string> key_line(std::string_view key, std::string_view user,
                                      std::string_view tier);

}  // namespace tidegate::cli

// `tidegate keys new`: makes an API key.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

struct KeysArguments {
    std::string user;
    std::string tier;  // empty: none
};

// Adds `keys` and its command `new` to `app`; `arguments` lives as long. Returns `new`.
CLI::App* describe_keys(CLI::App& app, KeysArguments& arguments);

// Prints a new key once, on standard error, and the line for the file of keys on standard output.
// Returns the exit code: 0, or 2 when there can be no such user or tier. Throws std::system_error
// when the system gives no random bytes.
int make_key(const KeysArguments& arguments);

// A line of a type of its own, as Result<std::string, std::string> would be ambiguous.
struct KeyLine {
    std::string text;
};

// The line for the file of keys: it holds the SHA-256 of `key`, not the key. Pure. The error says
// what names of users and tiers are.
Result<KeyLine, std::string> key_line(std::string_view key, std::string_view user,
                                      std::string_view tier);

}  // namespace tidegate::cli

// What a command line that makes no sense is answered with: what is wrong, what was meant, and
// where to read more.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tidegate::cli {

// The command of `app` with that name; null if there is none.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

// What is wrong with `name` as the first word after `tidegate`; nothing if it is a command of
// `app`.
std::optional<std::string> objection_to_command(const CLI::App& app, const std::string& name);

// What is wrong with `text` as an address to listen on; "" if nothing is, as CLI11 wants it.
std::string objection_to_address(const std::string& text);

// In one or two sentences, what is wrong with a command line that `app` could not parse.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tidegate::cli

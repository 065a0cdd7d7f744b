// Which configuration a command reads: `-c FILE`, `FILE`, or tidegate.yaml of the current folder.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "config/config.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

inline constexpr const char* kDefaultFile = "tidegate.yaml";

struct ConfigArguments {
    std::string option;    // after -c; empty: not given
    std::string argument;  // alone; likewise
};

// Adds `-c FILE` and `FILE` to `command`; `arguments` lives as long.
void add_config_file(CLI::App& command, ConfigArguments& arguments);

// Whether there is a tidegate.yaml, or something of that name that cannot be looked at: its reader
// reports that.
bool has_default_file();

struct ConfigFile {
    std::string path;  // `-`: standard input
};

// The error says what to write. `command` is the command's name, for that.
Result<ConfigFile, std::string> find_config_file(const ConfigArguments& arguments,
                                                 std::string_view command);

// config::load_file() for a command. Standard error tells of a path that does not answer.
config::Loaded load_config(const std::string& path);

}  // namespace tidegate::cli

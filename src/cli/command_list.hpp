// The program's commands and options as data, taken from the parser that reads the command line, so
// that completions and the manual page cannot differ from it. Pure.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

// What a value of the command line is, for completions.
struct ValueKind {
    std::string name;                  // `FILE`, `ADDRESS`; empty: the option takes no value
    std::vector<std::string> choices;  // all that it may be; empty: anything

    bool is_file() const { return name == "FILE"; }
};

struct ListedOption {
    std::vector<std::string> names;  // `-c`, `--config`
    std::string what;                // what `--help` says of it
    ValueKind value;
};

struct ListedArgument {
    std::string what;
    ValueKind value;
    bool is_required = false;
};

struct ListedCommand {
    std::string name;  // `run`, `keys new`; empty: the program itself
    std::string what;
    std::string footer;  // the text below the options of `--help`; may be empty
    std::vector<ListedOption> options;
    std::vector<ListedArgument> arguments;
    std::vector<std::string> inner;  // the last word of each command below this one
};

// The program itself first, then its commands in the order of `--help`, each before those below it.
std::vector<ListedCommand> list_commands(const CLI::App& app);

}  // namespace tidegate::cli

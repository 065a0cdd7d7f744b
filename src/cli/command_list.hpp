// The program's commands and options as data, taken from the parser that reads the command line, so
// that completions and the manual page cannot differ from it. Pure.
#pragma once

#include <string>
#include <string_view>
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

// The commands right below `command`, without those that help does not list.
std::vector<const CLI::App*> shown_commands(const CLI::App& command);

// The program itself first, then its commands in the order of `--help`, each before those below it.
std::vector<ListedCommand> list_commands(const CLI::App& app);

// For bash 4 and later, with or without the package bash-completion.
std::string bash_completion(const std::vector<ListedCommand>& commands);

// To be found as `_tidegate` in a folder of zsh's `fpath`, or to be sourced after `compinit`.
std::string zsh_completion(const std::vector<ListedCommand>& commands);

// For fish 3 and later.
std::string fish_completion(const std::vector<ListedCommand>& commands);

std::string man_page(const std::vector<ListedCommand>& commands, std::string_view version);

// `text` as a paragraph of roff: text between backquotes is bold, and no character is taken for a
// command.
std::string roff_text(std::string_view text);

}  // namespace tidegate::cli

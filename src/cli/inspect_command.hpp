// `tidegate inspect` and `tidegate reset`: their part of the command line.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace tidegate::cli {

struct InspectArguments {
    std::string identifier;
    std::string file;        // empty: the default, or what runs without one
    std::string admin;       // empty: as the configuration has it
    std::string token_file;  // goes with `admin`; empty: no token
    bool as_json = false;
};

// Adds the command to `app`; `arguments` lives as long.
CLI::App* describe_inspect(CLI::App& app, const std::string& default_file,
                           InspectArguments& arguments);
CLI::App* describe_reset(CLI::App& app, const std::string& default_file,
                         InspectArguments& arguments);

// Asks the running proxy and prints its answer. Returns the exit code: 0 when something is (or was)
// counted, 1 when nothing is, 2 when the question makes no sense, 3 when there is no answer.
int run_inspect(const InspectArguments& arguments, const std::string& default_file);
int run_reset(const InspectArguments& arguments, const std::string& default_file);

}  // namespace tidegate::cli

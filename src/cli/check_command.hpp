// `tidegate check`: its part of the command line.
#pragma once

#include "cli/config_file.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

struct CheckArguments {
    ConfigArguments config;
    bool is_strict = false;
    bool as_json = false;
};

// Adds the command to `app`; `arguments` lives as long.
CLI::App* describe_check(CLI::App& app, CheckArguments& arguments);

// Reads the configuration and prints what is wrong with it. Returns the exit code: 0, 1 when it has
// a fault (a warning, too, with `--strict`), 2 when there is no configuration.
int check_configuration(const CheckArguments& arguments);

}  // namespace tidegate::cli

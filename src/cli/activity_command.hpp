// `tidegate top` and `tidegate denials`: their part of the command line.
#pragma once

#include <string>

#include "cli/admin_place.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

struct ActivityArguments : AdminArguments {
    std::string by = "requests";  // of `top`
    bool follows = false;         // of `denials`
    bool as_json = false;
};

// Adds the command to `app`; `arguments` lives as long.
CLI::App* describe_top(CLI::App& app, ActivityArguments& arguments);
CLI::App* describe_denials(CLI::App& app, ActivityArguments& arguments);

// Asks the running proxy and prints its answer. Returns the exit code: 0 when there is something to
// list, 1 when there is nothing, 2 for wrong use, 3 when there is no answer. `denials --follow`
// ends with 0 at SIGINT and SIGTERM, and with 3 when the proxy has gone.
int run_top(const ActivityArguments& arguments);
int run_denials(const ActivityArguments& arguments);

}  // namespace tidegate::cli

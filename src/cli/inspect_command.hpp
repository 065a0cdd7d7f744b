// `tidegate inspect` and `tidegate reset`: their part of the command line.
#pragma once

#include <string>

#include "cli/admin_place.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

struct InspectArguments : AdminArguments {
    std::string identifier;
    bool upstreams = false;  // in place of an identifier
    bool as_json = false;
};

// Adds the command to `app`; `arguments` lives as long.
CLI::App* describe_inspect(CLI::App& app, InspectArguments& arguments);
CLI::App* describe_reset(CLI::App& app, InspectArguments& arguments);

// Asks the running proxy and prints its answer. Returns the exit code: 0 when something is (or was)
// counted, 1 when nothing is, 2 when the question makes no sense, 3 when there is no answer. Of
// upstreams: 0 when every server is up, 1 when one is not.
int run_inspect(const InspectArguments& arguments);
int run_reset(const InspectArguments& arguments);

}  // namespace tidegate::cli

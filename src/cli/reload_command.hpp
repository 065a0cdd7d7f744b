// `tidegate reload` and `tidegate health`: their part of the command line.
#pragma once

#include <string>

#include "cli/admin_place.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

// Each adds the command to `app`; `arguments` lives as long.
CLI::App* describe_reload(CLI::App& app, AdminArguments& arguments);
CLI::App* describe_health(CLI::App& app, AdminArguments& arguments);

// Has the running proxy read its configuration again, and prints what came of it. Returns the exit
// code: 0 when the new configuration is in force, 1 when the proxy refused it, 2 when no admin
// listener is known, 3 when there is no answer. Throws nothing.
int run_reload(const AdminArguments& arguments);

// Asks the running proxy whether it is ready. Returns the exit code: 0 when it is, 1 when it is not
// or does not answer. Throws nothing.
int run_health(const AdminArguments& arguments);

// The word of the answer to `/readyz`: `ready`, `starting` or `draining`. Empty: not from
// Tidegate's admin listener.
std::string readiness_of(const std::string& body);

// What `POST /reload` answered, a line for each fault and warning; Pure. Empty: not from Tidegate.
std::string reload_text(const std::string& body);

}  // namespace tidegate::cli

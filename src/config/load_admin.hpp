// The admin listener of a configuration, read without the rest: for commands that ask a running
// proxy, which must work also while the file has faults elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace tidegate::config {

struct LoadedAdmin {
    std::optional<Admin> admin;      // none: `admin: off`, or there are errors
    std::vector<Diagnostic> errors;  // of `admin`, or of a text that is not YAML
};

// Reads `admin` of the file at `path`, a token in a file included. Blocks.
LoadedAdmin load_admin(const std::string& path, Environment environment = process_environment);

}  // namespace tidegate::config

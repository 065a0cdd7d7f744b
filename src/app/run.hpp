// The whole program at work.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/files.hpp"

namespace tidegate::app {

// Where the configuration of this process comes from.
struct ConfigOrigin {
    std::string file;  // reloads read it again; empty: the configuration is built in
    std::vector<config::FileRead> files_read;
    bool is_watched = false;  // changes of these files are put in force without a signal
};

// Runs the proxy until stopped, with `config`, which was read from `origin`. Returns the exit code;
// says why on standard error.
int run(std::shared_ptr<const config::Config> config, ConfigOrigin origin);

}  // namespace tidegate::app

// The whole program at work.
#pragma once

#include <memory>
#include <string>

#include "config/config.hpp"

namespace tidegate::app {

// Runs the proxy until stopped. `file` is where `config` was read from and is read again by
// reloads; empty: it is built in. Returns the exit code; says why on standard error.
int run(std::shared_ptr<const config::Config> config, std::string file);

}  // namespace tidegate::app

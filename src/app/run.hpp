// The whole program at work.
#pragma once

#include <memory>
#include <string>

#include "app/origin.hpp"
#include "config/config.hpp"

namespace tidegate::app {

// Runs the proxy until stopped, with `config`, which was read from `origin`. Returns the exit code;
// says why on standard error.
int run(std::shared_ptr<const config::Config> config, Origin origin);

}  // namespace tidegate::app

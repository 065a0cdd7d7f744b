// The whole program at work.
#pragma once

#include <memory>

#include "config/config.hpp"

namespace tidegate::app {

// Runs the proxy until stopped. Returns the exit code; says why on standard error.
int run(std::shared_ptr<const config::Config> config);

}  // namespace tidegate::app

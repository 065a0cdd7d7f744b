// The scripts that a connection to Redis loads before it is used.
#pragma once

#include <vector>

#include "config/config.hpp"
#include "redis/script.hpp"

namespace tidegate::app {

// The script that can do every charge, and those that the charges of this configuration run, and
// what gives their units back; whatever else is needed is loaded when it is. Redis collects garbage
// by walking through every script it has, so unused scripts make each decision slower.
std::vector<const redis::Script*> preloaded_scripts(const config::Config& config);

}  // namespace tidegate::app

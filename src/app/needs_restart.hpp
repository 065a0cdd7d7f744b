// What a running process cannot take from a new configuration. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace tidegate::app {

// A message for each part in which `next` differs from `running` and that only a restart can
// change. `workers` run; `workers_next` is how many `next` asks for.
std::vector<std::string> needs_restart(const config::Config& running, const config::Config& next,
                                       std::size_t workers, std::size_t workers_next);

}  // namespace tidegate::app

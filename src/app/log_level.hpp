// The error log takes its level from the configuration.
#pragma once

#include "config/config.hpp"

namespace tidegate::app {

void set_log_level(config::LogLevel level);

}  // namespace tidegate::app

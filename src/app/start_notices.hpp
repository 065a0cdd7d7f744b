// What the log says at the start, beside what is opened.
#pragma once

#include <string>

#include "config/config.hpp"

namespace tidegate::app {

// What a TERM does to the listeners, and where that comes from.
std::string describe_shutdown_delay(const config::Timeouts& timeouts);

// Logs which certificate is to be renewed first.
void log_expiry(const config::Config& config);

}  // namespace tidegate::app

// What a configuration's reader found, in words for a terminal. Pure.
#pragma once

#include <string>

#include "config/config.hpp"

namespace tidegate::cli {

// Every fault, then every warning, a line each: `file:line:column: error: message`, as compilers
// and editors have it.
std::string report(const config::Loaded& loaded);

// `ok: 3 routes, 2 policies, 1 upstream`, or how many faults there are; without newline.
std::string summary(const config::Loaded& loaded);

}  // namespace tidegate::cli

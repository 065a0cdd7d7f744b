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

// The same for programs: {"ok":true,"routes":3,"policies":2,"upstreams":1,"errors":[...],
// "warnings":[{"file":"t.yaml","line":7,"column":12,"message":"..."}]}. Without the counts where
// there is no configuration, and without `line` and `column` where there is no place. `is_right`
// is `ok`.
std::string report_json(const config::Loaded& loaded, bool is_right);

}  // namespace tidegate::cli

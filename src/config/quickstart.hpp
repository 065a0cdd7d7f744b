// The configuration of `tidegate quickstart`.
#pragma once

#include <string_view>

#include "config/config.hpp"

namespace tidegate::config {

// The text of config/quickstart.yaml: a limit low enough to meet by hand, in front of the built-in
// echo upstream on 127.0.0.1:9000.
std::string_view quickstart_text();

// The same for a face: a limit low enough to meet by hand, on 127.0.0.1:8181.
std::string_view quickstart_text(Face face);

// quickstart_text() read; never has errors.
Loaded quickstart(Face face = Face::proxy);

}  // namespace tidegate::config

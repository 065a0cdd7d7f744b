// What a route matches. Immutable once made.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tidegate::routing {

// `match:` of a route as written; every condition that is given must hold.
struct Match {
    std::string path = "/**";                                  // a pattern, see path_pattern.hpp
    std::vector<std::string> methods;                          // empty: any; GET includes HEAD
    std::string host;                                          // empty: any; lower case
    std::vector<std::pair<std::string, std::string>> headers;  // name (lower case), exact value
};

}  // namespace tidegate::routing

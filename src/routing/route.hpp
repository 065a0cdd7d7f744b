// What a route matches. Immutable once made.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tidegate::routing {

// What becomes of a path that takes another route if the case of its letters is ignored.
enum class RouteCase : std::uint8_t {
    refuse,   // 400: servers that ignore case would serve it as the other one
    ignore,   // paths are matched without case
    as_sent,  // paths are matched with case
};

// `match:` of a route as written; every condition that is given must hold.
struct Match {
    std::string path = "/**";          // a pattern, see path_pattern.hpp
    std::vector<std::string> methods;  // upper case; empty: any; GET includes HEAD
    // Lower case. Empty: any. `*.example.com`: every name of one or more labels before
    // `example.com`, and not that name itself.
    std::string host;
    std::vector<std::pair<std::string, std::string>> headers;  // name (lower case), exact value
    // The server behind takes %2F for a character of its segment, and not for a slash.
    bool passes_encoded_slash = false;
};

}  // namespace tidegate::routing

// The beginning of a path that a route matches and the upstream is not sent. Pure; any thread.
//
// The route's limits hold for the whole path, and the upstream reads the rest of it. So the rest
// must mean to every server what the whole path meant to the route.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "routing/path_pattern.hpp"

namespace tidegate::routing {

// Whether every path that `pattern` matches begins with the segments of `prefix`; else in one
// sentence what is wrong.
Result<void, std::string> check_path_prefix(std::string_view prefix, const PathPattern& pattern);

// Whether `path`, as it was sent, begins with the bytes of `prefix` as whole segments, and a server
// that reads the rest finds in it what it finds in `path` behind the prefix. Nor could it read `//`
// at the beginning of the rest, which some servers take for the beginning of a host's name.
// `keeps_slash`: no server takes %2F for a slash.
// Requires a prefix that check_path_prefix() accepts. Linear, and no allocation where `path` has
// one reading.
bool can_strip(std::string_view path, std::string_view prefix, bool ignoring_case,
               bool keeps_slash = false);

// `path` without its first `bytes`; `/` if nothing is left. Requires that it has so many.
inline std::string_view without_prefix(std::string_view path, std::size_t bytes) {
    return bytes != 0 && path.size() == bytes ? std::string_view("/") : path.substr(bytes);
}

}  // namespace tidegate::routing

// The ways a server could read a path. Pure; any thread.
//
// The upstream gets a path as it was sent, so what it makes of `%2F`, `\`, `;` or `..` decides what
// the request really asks for. A route is chosen only if all readings agree on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate::routing {

// Names what servers read differently in a path; bits of PathShape::features.
enum PathFeature : std::uint8_t {
    kEncoded = 1,         // a percent-encoded byte
    kDotSegments = 2,     // `.` or `..` between separators, encoded or not
    kEncodedSlash = 4,    // %2F
    kBackslash = 8,       // `\` or %5C
    kParameters = 16,     // `;` or %3B
    kEmptySegments = 32,  // `//`, or what becomes it
};

struct PathShape {
    // 400: a malformed `%`, `%00`, a control or space, `?` or `#`, or no `/` at the front.
    bool bad = false;
    std::uint8_t features = 0;  // none: the path has one reading, itself
    // A path with one reading may hold letters whose case a server ignores and that are not in
    // lower case.
    bool cased = false;
};

// One pass, no allocation.
PathShape examine_path(std::string_view path);

// The shape of the same path for a server that takes %2F for a character of its segment. The shape
// of a path with dot segments stays as it is: `..%2F` is no name of anything, and such a server may
// decode it later, when it opens a file.
PathShape with_slash_kept(PathShape shape);

struct PathReading {
    std::string text;     // what literal segments are compared with
    std::string decoded;  // what regular expressions and captures see
};

// More than this many of the features that can be combined (all but kEncoded), and a path is
// refused rather than read: no honest client mixes them, and the readings multiply.
inline constexpr int kMixedFeaturesMax = 2;
bool has_too_many_readings(const PathShape& shape);

// All readings, without repetitions; the first is the path as sent, where only bytes that cannot
// stand in a path unencoded are decoded. A path that ends in `%0A` is read without it as well. In
// each, `/` separates segments and nothing else. Requires a shape that is not bad and does not have
// too many readings.
std::vector<PathReading> path_readings(std::string_view path, const PathShape& shape);

// Decodes `%xx` once; an encoded slash stays `%2F`, for it separates nothing. Nothing for a
// malformed `%` or `%00`.
std::optional<std::string> decode_segment(std::string_view text);

}  // namespace tidegate::routing

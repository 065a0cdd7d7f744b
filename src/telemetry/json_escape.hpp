// Text from anywhere as the inside of a JSON string. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidegate::telemetry {

inline constexpr std::size_t kEscapedBytesMax = 6;  // of one byte: `\u0000`

// Writes `text` to `out` and returns where it ended; `out` has room for kEscapedBytesMax times its
// size. Quotes, backslashes and controls (C1 too: terminals act upon them) are escaped; a byte
// that is no UTF-8 becomes U+FFFD.
char* write_json_escaped(std::string_view text, char* out);

}  // namespace tidegate::telemetry

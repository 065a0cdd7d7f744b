// Text from anywhere as the inside of a JSON string. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidegate::telemetry {

inline constexpr std::size_t kEscapedBytesMax = 6;  // of one byte: `\u0000`

// Writes `text` to `out` and returns where it ended; `out` has room for kEscapedBytesMax times its
// size. Quotes, backslashes and what misleads a display (base/quote.hpp) are escaped; a byte that
// is no UTF-8 becomes U+FFFD.
char* write_json_escaped(std::string_view text, char* out);

// Likewise, and spaces are escaped, too: for words of a line.
char* write_json_escaped_word(std::string_view text, char* out);

// Writes `text` if it can stand between commas in a JSON string as it is: printable ASCII, but no
// space, comma, quote or backslash. Else returns null, and what it wrote means nothing.
char* write_if_plain_item(std::string_view text, char* out);

}  // namespace tidegate::telemetry

// Text from anywhere as a JSON string, or the inside of one. Pure. Small JSON that is written for
// each request (access log, problem details, answers of the check API) is written by hand with
// this, for speed; all other JSON is nlohmann's.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidegate {

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

// Likewise, if it can stand without quotes as a value of logfmt: printable ASCII, but no space,
// `=`, quote or backslash.
char* write_if_plain_value(std::string_view text, char* out);

// Appends what write_json_escaped() writes.
void append_json_escaped(std::string_view text, std::string& out);

// Likewise, between quotes. Allocates nothing when `out` has room.
void append_json_string(std::string_view text, std::string& out);

}  // namespace tidegate

// Writing values of structured fields (RFC 9651) into a scratch buffer. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tidegate::http {

// The largest magnitude of an Integer (RFC 9651 section 3.3.1: fifteen digits).
inline constexpr std::int64_t kStructuredIntegerMax = 999'999'999'999'999;

// Appends a String: `text` between quotes, `"` and `\` escaped. Bytes that a String cannot hold
// (anything but printable ASCII) become `?`, so that no name can break out of its field.
// A quoted-string of RFC 9110 section 5.6.4 has the same form.
void append_quoted_string(std::string_view text, std::string& out);

// Appends an Integer. What does not fit in fifteen digits becomes the nearest that does.
void append_integer(std::int64_t number, std::string& out);

}  // namespace tidegate::http

// UTF-8 as far as a reader of foreign text needs it. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidegate {

// Bytes of the first character of `text`; 0 when it is not UTF-8 (RFC 3629: no surrogates, no
// overlong forms, nothing above U+10FFFF). Requires a text that is not empty.
std::size_t utf8_length(std::string_view text);

}  // namespace tidegate

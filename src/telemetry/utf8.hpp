// UTF-8, as RFC 3629 section 4 allows it. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidegate::telemetry {

// The length of the well-formed sequence `text` begins with, 1 to 4; 0 if it begins with none
// (overlong forms, surrogates and what lies beyond U+10FFFF are none) or is empty.
std::size_t utf8_sequence_bytes(std::string_view text);

bool is_utf8(std::string_view text);

// The longest beginning of `text` of at most `bytes_max` bytes that does not split a sequence.
std::string_view utf8_prefix(std::string_view text, std::size_t bytes_max);

}  // namespace tidegate::telemetry

// Text somebody else wrote, made fit for a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidegate {

// How many bytes at the beginning of `text` are a character that does something to the display
// instead of standing there: C0, DEL, C1, invisible ones, ends of lines, and those that turn the
// direction of writing (U+200B to U+200F, U+2028 to U+202E, U+2066 to U+2069, U+FEFF). 0: none.
// Requires some text.
std::size_t misleading_bytes(std::string_view text);

// `text` with the bytes of such characters, and those that are not UTF-8, as `\x1b` and the like: a
// message stays one line, and a terminal is not commanded.
std::string displayable(std::string_view text);

// At most 60 bytes of `text`, displayable, in backquotes.
std::string quote(std::string_view text);

}  // namespace tidegate

// Text of a client or a file, made fit for a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidegate {

// The length of the first character of `text` if is_hidden() (base/utf8.hpp) says that a reader
// does not see it or that a terminal obeys it; else 0. Requires text that is not empty.
std::size_t misleading_bytes(std::string_view text);

// `text` with the bytes of such characters, and those that are not UTF-8, as `\x1b` and the like: a
// message stays one line, and a terminal is not commanded.
std::string displayable(std::string_view text);

// At most 60 bytes of `text`, displayable, in backquotes.
std::string quote(std::string_view text);

}  // namespace tidegate

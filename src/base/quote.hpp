// Text somebody else wrote, made fit for a message.
#pragma once

#include <string>
#include <string_view>

namespace tidegate {

// `text` in backquotes, at most 60 bytes of it; controls become `\x1b` and the like, so that a
// message stays one line and a terminal is not commanded.
std::string quote(std::string_view text);

}  // namespace tidegate

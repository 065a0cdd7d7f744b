// base64url as JOSE writes it (RFC 7515 section 2). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tidegate::identity {

// The bytes that `text` stands for, or nothing when it is not the one way to write them: the URL
// alphabet only, no padding, no white space, the bits left over zero (RFC 4648 section 3.5).
std::optional<std::string> decode_base64url(std::string_view text);

}  // namespace tidegate::identity

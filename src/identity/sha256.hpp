// SHA-256 of a text. Any thread.
#pragma once

#include <array>
#include <string_view>

namespace tidegate::identity {

using Sha256 = std::array<unsigned char, 32>;

Sha256 sha256(std::string_view text);

}  // namespace tidegate::identity

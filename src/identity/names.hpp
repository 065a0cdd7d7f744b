// Which texts may name a user or a tier, whoever says so. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidegate::identity {

inline constexpr std::size_t kUserBytesMax = 256;
inline constexpr std::size_t kTierBytesMax = 64;

// UTF-8 of 1 to kUserBytesMax bytes without control characters (C0, DEL, C1), and without a space
// at either end: whoever is told the name in a field would take ` alice` for `alice` (RFC 9110
// section 5.5).
bool is_safe_user(std::string_view text);

// Letters, digits, `-`, `_` and `.`, 1 to kTierBytesMax of them, as tiers are named in the
// configuration.
bool is_tier_name(std::string_view text);

}  // namespace tidegate::identity

// Which texts may name a user or a tier, wherever the name comes from. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidegate::identity {

inline constexpr std::size_t kUserBytesMax = 256;
inline constexpr std::size_t kTierBytesMax = 64;

// UTF-8 that is not empty, without invisible characters (see is_hidden()) and without a blank at
// either end: people could not tell two such names apart, and parsers of fields take ` alice` for
// `alice` (RFC 9110 section 5.5).
// Names are compared byte by byte: the composed and the decomposed `é` are two names.
bool is_plain_name(std::string_view text);

// A plain name of at most kUserBytesMax bytes.
bool is_safe_user(std::string_view text);
inline constexpr std::string_view kSafeUserRule =
    "the name of a user is UTF-8 of 1 to 256 bytes, without control or invisible characters and "
    "without a space at either end";

// Letters, digits, `-`, `_` and `.`, 1 to kTierBytesMax of them, as tiers are named in the
// configuration.
bool is_tier_name(std::string_view text);

}  // namespace tidegate::identity

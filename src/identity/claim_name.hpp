// The name of a claim as a key has it: `claim:https://example.com/tenant`. Pure.
//
// In a key, `+` joins parts and `|` separates alternatives. A name that has one of these writes
// `%2B`, `%7C`, and `%25` for `%`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace tidegate::identity {

inline constexpr std::size_t kClaimNameBytesMax = 256;

// The name that `written` means: 1 to kClaimNameBytesMax bytes of visible ASCII without `=`. An
// error says what would be right.
Result<std::string, std::string> parse_claim_name(std::string_view written);

// Appends the name as parse_claim_name() reads it.
void append_claim_name(std::string_view name, std::string& out);

}  // namespace tidegate::identity

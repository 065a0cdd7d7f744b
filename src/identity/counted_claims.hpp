// The claims of a token that policies count by, each as its identifier (`claim:tenant=acme`), in
// one string: a cache keeps it beside the user, and a request copies it as a whole. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace tidegate::identity {

// The name of a claim as a key has it: `claim:https://example.com/tenant`. Pure.
//
// In a key, `+` joins parts and `|` separates alternatives. A name that has one of these writes
// `%2B`, `%7C`, and `%25` for `%`.
inline constexpr std::size_t kClaimNameBytesMax = 256;

// The name that `written` means: 1 to kClaimNameBytesMax bytes of visible ASCII without `=`. An
// error says what would be right.
Result<std::string, std::string> parse_claim_name(std::string_view written);

// Appends the name as parse_claim_name() reads it.
void append_claim_name(std::string_view name, std::string& out);

// Claims that the policies of a configuration may count by, all together.
inline constexpr std::size_t kCountedClaimsMax = 32;

// `values` belong to `names`, of which there are at most kCountedClaimsMax; an empty value is
// absent. `space` is the namespace of the method: it comes before each value, with a colon. Returns
// at most 1 + 129 * kCountedClaimsMax bytes, and nothing if all values are absent.
std::string pack_claims(std::span<const std::string> names, std::span<const std::string> values,
                        std::string_view space);

// The identifier of the claim at `position` of the names; empty if it is absent. The view goes into
// `packed`, which pack_claims() has returned.
std::string_view claim_identifier(std::string_view packed, std::size_t position);

}  // namespace tidegate::identity

// The names that are counted: canonical, safe in keys and logs, bounded. White space and invisible
// characters around a value that stands under a name, which a client chooses, make no other one
// (without_outer_blanks()). Else no two different inputs give one, but for collisions of SHA-256.
// Pure.
//
//   ip:203.0.113.7              an address, or with its prefix the network it is counted by
//   user:alice                  a kind and a value
//   header:x-tenant=acme        a kind, whose value it is, and the value
//   17:header:x-tenant=a+12:route:search   several as one: each with its length before it
//
// In values, braces, controls, DEL, bytes above 0x7e and `%` are percent-encoded. What would be
// longer than kIdentifierBytesMax ends in `#` and its SHA-256 in hexadecimal instead (nothing else
// has a `#` in that place: it is encoded there).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/ip.hpp"
#include "base/result.hpp"

namespace tidegate::identity {

// Which texts may name a user or a tier, wherever the name comes from. Pure.
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

inline constexpr std::size_t kIdentifierBytesMax = 128;

// Appends `ip:203.0.113.7` or, where the prefix is shorter than the address, `ip:2001:db8::/64`.
void append_ip_identifier(const IpAddress& ip, int prefix, std::string& out);

// Appends `user:alice`, or `user:#` and a hash. Allocates nothing when `out` has room.
void append_user_identifier(std::string_view user, std::string& out);

// Appends an identifier of any kind: `route:search`. Requires a short kind of letters.
void append_identifier(std::string_view kind, std::string_view value, std::string& out);

// Appends `header:x-tenant=acme`, or `header:#` and a hash. Requires a name without `=`.
void append_named_identifier(std::string_view kind, std::string_view name, std::string_view value,
                             std::string& out);

// Appends one whose value must not appear anywhere: `header:authorization=#` and its hash. A name
// is used either here or above, never in both. Requires a name of at most 48 bytes.
void append_secret_identifier(std::string_view kind, std::string_view name, std::string_view value,
                              std::string& out);

// Appends several identifiers as one. Requires at least one.
void append_joined_identifier(std::span<const std::string_view> parts, std::string& out);

// The claims of a token that policies count by, each as its identifier (`claim:tenant=acme`), in
// one string: a cache keeps it beside the user, and a request copies it as a whole. Pure.

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

// What the token states in the claim that has this identifier, encoded as there. `space`: the
// namespace of its method. Empty: nothing, or more than an identifier holds.
std::string_view claim_value(std::string_view identifier, std::string_view space);

}  // namespace tidegate::identity

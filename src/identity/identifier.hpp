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

// The same for any kind: `route:search`. Requires a short kind of letters.
void append_identifier(std::string_view kind, std::string_view value, std::string& out);

// Appends `header:x-tenant=acme`, or `header:#` and a hash. Requires a name without `=`.
void append_named_identifier(std::string_view kind, std::string_view name, std::string_view value,
                             std::string& out);

// The same for a value that must be seen nowhere: `header:authorization=#` and its hash. A name is
// used either here or above, never in both. Requires a name of at most 48 bytes.
void append_secret_identifier(std::string_view kind, std::string_view name, std::string_view value,
                              std::string& out);

// Appends several identifiers as one. Requires at least one.
void append_joined_identifier(std::span<const std::string_view> parts, std::string& out);

}  // namespace tidegate::identity

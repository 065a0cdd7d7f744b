// The names that are counted: canonical, safe in keys and logs, bounded. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/ip.hpp"

namespace tidegate::identity {

inline constexpr std::size_t kIdentifierBytesMax = 128;

// Appends `ip:203.0.113.7` or, grouped by prefix, `ip:2001:db8::/64`.
void append_ip_identifier(const IpAddress& ip, int ipv6_prefix, std::string& out);

// Appends `user:alice`. Braces, controls, DEL, bytes above 0x7e and `%` are percent-encoded; a
// name that would be longer than kIdentifierBytesMax becomes `user:#` and its SHA-256 in
// hexadecimal (no plain name begins with `#`: that character is encoded first).
void append_user_identifier(std::string_view user, std::string& out);

}  // namespace tidegate::identity

// IP addresses and networks as values with one spelling each.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tidegate {

inline constexpr std::size_t kZoneBytesMax = 15;  // as long as Linux lets an interface's name be

// An IPv4 or IPv6 address. IPv4-mapped IPv6 is IPv4. A link-local one may have a zone (RFC 4007
// section 11): the link it is an address of. Others have none, so that each has one spelling.
// Copied with every request, so it owns nothing and takes 32 bytes.
struct IpAddress {
    std::array<std::uint8_t, 16> bytes{};  // IPv4 in the first four
    bool v4 = true;
    std::array<char, kZoneBytesMax> zone{};  // filled up with zeros

    // The same bits in another zone are another address.
    bool operator==(const IpAddress&) const = default;
    // 0.0.0.0 and :: name nobody.
    bool is_unspecified() const;
    // fe80::/10
    bool is_link_local() const;
    std::string_view zone_text() const;
    // False, and nothing changes, unless the address is link-local and `text` 1 to kZoneBytesMax of
    // letters, digits, `.`, `_`, `-`.
    bool set_zone(std::string_view text);
    // RFC 5952 for IPv6; a zone stands behind `%`.
    std::string to_string() const;
    // Appends to_string() without allocating when `out` has room.
    void append_to(std::string& out) const;
};

static_assert(sizeof(IpAddress) == 32);

// Strict: four decimal numbers without leading zeros, or RFC 4291 text; no port, no brackets, no
// zone. IPv4-mapped IPv6 gives IPv4.
std::optional<IpAddress> parse_ip(std::string_view text);

// The same, and `fe80::1%eth0`: a link-local address may have a zone.
std::optional<IpAddress> parse_scoped_ip(std::string_view text);

struct IpNetwork {
    IpAddress address;  // has no zone
    int prefix = 32;    // 0..32 for IPv4, 0..128 for IPv6

    // Whatever zone `ip` has: fe80::/10 is the neighbours on every link.
    bool contains(const IpAddress& ip) const;
};

// `10.0.0.0/8`, or a single address. Bits beyond the prefix must be zero.
std::optional<IpNetwork> parse_network(std::string_view text);

// The first `prefix` bits of an IPv6 address and its zone, the rest zero; IPv4 as it is.
IpAddress masked(const IpAddress& ip, int prefix);

}  // namespace tidegate

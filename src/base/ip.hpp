// IP addresses and networks as values with one spelling each.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate {

// An IPv4 or IPv6 address. IPv4-mapped IPv6 is IPv4. It has no zone (RFC 4007 section 11): a zone
// means something on one machine only, so each address has one spelling without it.
// Copied with every request, so it owns nothing.
struct IpAddress {
    std::array<std::uint8_t, 16> bytes{};  // IPv4 in the first four
    bool v4 = true;

    bool operator==(const IpAddress&) const = default;
    int bits() const { return v4 ? 32 : 128; }
    // 0.0.0.0 and :: are the address of no host.
    bool is_unspecified() const;
    // RFC 5952 for IPv6.
    std::string to_string() const;
    // Appends to_string() without allocating when `out` has room.
    void append_to(std::string& out) const;
};

// Strict: four decimal numbers without leading zeros, or RFC 4291 text; no port, no brackets, no
// zone. IPv4-mapped IPv6 gives IPv4.
std::optional<IpAddress> parse_ip(std::string_view text);

// The same, and `fe80::1%eth0`, which is fe80::1: an IPv6 address may have a zone, and the reader
// drops it. A zone is letters, digits, `.`, `_`, `-`, one at least.
std::optional<IpAddress> parse_scoped_ip(std::string_view text);

struct IpNetwork {
    IpAddress address;
    int prefix = 32;  // 0..32 for IPv4, 0..128 for IPv6

    bool operator==(const IpNetwork&) const = default;

    bool contains(const IpAddress& ip) const;
};

// `10.0.0.0/8`, or a single address; without a zone, as a network lies on every link. Bits beyond
// the prefix must be zero.
std::optional<IpNetwork> parse_network(std::string_view text);

// What to write instead of a network that parse_network() refuses for its prefix or the bits beyond
// it: "write `10.0.0.0/8`". Empty: `text` has no address, or no number as its prefix.
std::string advice_about_network(std::string_view text);

// The first `prefix` bits of an address, the rest zero. As it is if it has no more bits than that.
IpAddress masked(const IpAddress& ip, int prefix);

// By how many of their first bits addresses count as one client; no list is empty.
struct IpPrefixes {
    std::vector<int> ipv4{32};
    std::vector<int> ipv6{64};

    // Those that hold for `ip`.
    const std::vector<int>& of(const IpAddress& ip) const { return ip.v4 ? ipv4 : ipv6; }
    // The network of the widest of them that `ip` is in: what bounds whole clients counts by.
    IpAddress widest(const IpAddress& ip) const;
};

}  // namespace tidegate

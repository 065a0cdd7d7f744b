// IP addresses and networks as values with one spelling each, and lists of them.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tidegate {

// An IPv4 or IPv6 address. IPv4-mapped IPv6 is IPv4. It has no zone (RFC 4007 section 11): a zone
// means something on one machine only, so each address has one spelling without it.
// Copied with every request, so it owns nothing.
struct IpAddress {
    std::array<std::uint8_t, 16> bytes{};  // IPv4 in the first four
    bool v4 = true;

    bool operator==(const IpAddress&) const = default;
    // IPv4 comes first.
    std::strong_ordering operator<=>(const IpAddress& other) const {
        return v4 != other.v4 ? other.v4 <=> v4 : bytes <=> other.bytes;
    }
    int bits() const { return v4 ? 32 : 128; }
    // True for 0.0.0.0 and ::, which are the address of no host.
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

// Says what to write instead of a network that parse_network() refuses for its prefix or the bits
// beyond it: "write `10.0.0.0/8`". Empty: `text` has no address, or no number as its prefix.
std::string advice_about_network(std::string_view text);

// The first `prefix` bits of an address, the rest zero. As it is if it has no more bits than that.
IpAddress masked(const IpAddress& ip, int prefix);

// How many of their first bits addresses must share to count as one client; no list is empty.
struct IpPrefixes {
    std::vector<int> ipv4{32};
    std::vector<int> ipv6{64};

    // The prefixes that apply to the version of `ip`.
    const std::vector<int>& of(const IpAddress& ip) const { return ip.v4 ? ipv4 : ipv6; }
    // The network of the widest prefix that contains `ip`: bounds on whole clients count by it.
    IpAddress widest(const IpAddress& ip) const;
};

// A list of networks that requests are compared with: as it is written, for people, and sorted, so
// that a search among thousands costs some comparisons. Immutable once made.
class IpNetworks {
  public:
    IpNetworks() = default;
    IpNetworks(std::initializer_list<IpNetwork> written)
        : IpNetworks(std::vector<IpNetwork>(written)) {}
    explicit IpNetworks(std::vector<IpNetwork> written);

    bool operator==(const IpNetworks& other) const { return written_ == other.written_; }

    // Iterates in the order in which the networks are written.
    auto begin() const { return written_.begin(); }
    auto end() const { return written_.end(); }
    bool empty() const { return written_.empty(); }
    std::size_t size() const { return written_.size(); }

    // Whether one of them contains `ip`: a binary search.
    bool contains(const IpAddress& ip) const;
    // The first that contains `ip`, or null. It searches one after the other, for what people read.
    const IpNetwork* find(const IpAddress& ip) const;

  private:
    using Bytes = std::array<std::uint8_t, 16>;

    // All addresses from one to another, both included.
    struct Range {
        Bytes first{};
        Bytes last{};
    };
    // The ranges of one version of IP, sorted; none overlaps another.
    using Ranges = std::vector<Range>;

    static void merge(Ranges& ranges);
    const Ranges& ranges(bool v4) const { return v4 ? v4_ : v6_; }

    std::vector<IpNetwork> written_;
    Ranges v4_;
    Ranges v6_;
};

// Addresses that may make up more than a quarter of a list: at most three can.
//
// The algorithm of Misra and Gries: three counters, and an address without a counter takes one from
// each. One pass finds every address that may be above a quarter, without a table; a second pass
// that counts them tells which are.
class HeavyHitters {
  public:
    void add(const IpAddress& address) {
        auto counter = find(address);
        if (counter == counters_.end()) {
            counter = std::find_if(counters_.begin(), counters_.end(),
                                   [](const Counter& other) { return other.count == 0; });
        }
        if (counter == counters_.end()) {
            for (Counter& other : counters_) --other.count;
        } else {
            counter->address = address;
            ++counter->count;
        }
    }

    bool contains(const IpAddress& address) const { return find(address) != counters_.end(); }

    std::vector<IpAddress> addresses() const {
        std::vector<IpAddress> all;
        for (const Counter& counter : counters_) {
            if (counter.count > 0) all.push_back(counter.address);
        }
        return all;
    }

    // Removes addresses for which `is_none` holds.
    template <class IsNone>
    void erase_if(IsNone is_none) {
        for (Counter& counter : counters_) {
            if (counter.count > 0 && is_none(counter.address)) counter.count = 0;
        }
    }

  private:
    struct Counter {
        IpAddress address;
        std::size_t count = 0;  // 0: of no address
    };
    using Counters = std::array<Counter, 3>;

    Counters::const_iterator find(const IpAddress& address) const {
        return std::find_if(counters_.begin(), counters_.end(), [&](const Counter& counter) {
            return counter.count > 0 && counter.address == address;
        });
    }
    Counters::iterator find(const IpAddress& address) {
        return counters_.begin() + (std::as_const(*this).find(address) - counters_.cbegin());
    }

    Counters counters_;
};

}  // namespace tidegate

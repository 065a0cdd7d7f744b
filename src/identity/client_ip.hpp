// The address of the client: that of the peer, or the one that trusted proxies name in a field.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"
#include "base/ip.hpp"
#include "http/field.hpp"

namespace tidegate::identity {

// Hops of a forwarding chain, read from the right. Pure; allocates nothing.
//
// The items that a trusted proxy appended are well-formed and stand on the right; a client may have
// made the items to their left. So items are cut off from the right: an open quote or a stray comma
// on the left cannot move the borders of those appended after it.

// Cuts the last item off a list of addresses; white space around it is removed. `more` tells
// whether a comma, and so another item (maybe an empty one), stands before it.
std::string_view take_last_address(std::string_view& list, bool& more);

// The same for elements of Forwarded (RFC 7239 section 4), where quoted strings may hold commas.
std::string_view take_last_element(std::string_view& list, bool& more);

// `203.0.113.7`, `203.0.113.7:4711`, `2001:db8::7`, `[2001:db8::7]`, `[2001:db8::7]:4711`, and IPv6
// with a zone, `fe80::7%eth0`, which is dropped: a proxy names its own links by it, not ours, and a
// client of several names would have several counts.
// Nothing for anything else: empty, `unknown`, an obfuscated name.
std::optional<IpAddress> read_address(std::string_view item);

// The address of the only `for` of an element. Nothing when there is none, more than one, when it
// is not an address (`unknown`, `_hidden`), or when the element is not well-formed.
std::optional<IpAddress> read_forwarded_element(std::string_view element);

struct ClientIpSettings {
    enum class Source : std::uint8_t { x_forwarded_for, forwarded, single };

    IpNetworks trusted_proxies;  // empty: forwarding fields are not believed
    Source source = Source::x_forwarded_for;
    std::string single_field;  // for `single`: the field's name, in lower case
    IpPrefixes prefixes;       // each makes an identifier of its own

    bool trusts(const IpAddress& peer) const { return trusted_proxies.contains(peer); }
};

// The field that names the client, in lower case.
std::string_view field_of(const ClientIpSettings& settings);

// The connection's other end. A Unix socket has no address and is trusted only if its listener
// says so.
struct Peer {
    std::optional<IpAddress> address;
    bool trusted = false;  // may be believed about whom it forwards for
    // A gateway that asks about requests of others: its address chain is believed, and its own
    // address is no client's. About users and costs it is believed only if it is `trusted`, too.
    bool is_gateway = false;
};

// Says how a step of the walk below treats an address.
BOOST_DEFINE_FIXED_ENUM_CLASS(HopKind, std::uint8_t,
                              trusted,      // the walk goes on to its left
                              client,       // not trusted: nothing to its left is believed
                              unreadable,   // no address: the hop before it counts
                              unspecified)  // 0.0.0.0 or ::, and the same

// A step of the walk below, for those who ask why it ended where it did.
struct Hop {
    using Kind = HopKind;

    std::string_view text;  // as it stands in the field
    std::optional<IpAddress> address;
    Kind kind = Kind::unreadable;
};

// How many entries of a chain are read.
inline constexpr std::size_t kHopsMax = 100;

// Why a chain from a trusted peer did not come to a client: all requests that come this way count
// as the last good hop. A field that is not there is no fault.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    ChainFault, std::uint8_t, none,
    unreadable,   // an entry is no IP address
    unspecified,  // an entry is 0.0.0.0 or ::
    too_long,     // kHopsMax entries of trusted proxies, and more to their left
    repeated)     // a field for one address is there twice, empty or in another spelling

// How it ends a sentence about the field: `holds an entry that is no IP address`.
std::string_view describe(ChainFault fault);

// The client's address: the peer's own unless the peer is trusted; then the chain is walked from
// the right, stopping at the first hop that is not trusted or cannot be read (then the last good
// one), at the latest after kHopsMax. The time grows with the length of the chain, and with the
// logarithm of how many proxies are trusted. Nothing when no client can be named (an untrusted Unix
// peer, 0.0.0.0, ::). Allocates nothing, unless `hops` is given: each step is appended to it, from
// right to left. `fault`, if given, is set where the chain has one and left alone where it has
// none.
std::optional<IpAddress> client_address(const Peer& peer, const http::Fields& fields,
                                        const ClientIpSettings& settings,
                                        std::vector<Hop>* hops = nullptr,
                                        ChainFault* fault = nullptr);

}  // namespace tidegate::identity

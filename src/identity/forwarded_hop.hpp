// Hops of a forwarding chain, read from the right. Pure; allocates nothing.
//
// What a trusted proxy appended is well-formed and stands on the right; what stands to its left a
// client may have made. So items are cut off from the right: an open quote or a stray comma on the
// left cannot move the borders of those appended after it.
#pragma once

#include <optional>
#include <string_view>

#include "base/ip.hpp"

namespace tidegate::identity {

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

}  // namespace tidegate::identity

// The place under https that a request in the clear is sent to. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/head.hpp"

namespace tidegate::faces {

// The target URI of `head` (RFC 9110 section 7.1) with the scheme `https`, and with `port` in place
// of the one that `host` may end in; 443 is not written. `host` is the request's: a valid one, not
// empty.
std::string https_location(std::string_view host, std::uint16_t port,
                           const http::RequestHead& head);

}  // namespace tidegate::faces

// The answer to the key of a WebSocket handshake (RFC 6455 section 4.2.2). Any thread.
#pragma once

#include <string>
#include <string_view>

namespace tidegate::proxy {

// The Sec-WebSocket-Accept that belongs to a Sec-WebSocket-Key. Empty if the system's OpenSSL has
// no SHA-1, so that nothing is accepted.
std::string websocket_accept(std::string_view key);

}  // namespace tidegate::proxy

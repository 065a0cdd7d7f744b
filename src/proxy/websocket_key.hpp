// The key of a WebSocket handshake (RFC 6455 section 4.1) that the proxy begins: where its client
// speaks HTTP/2, which has no such key. Any thread.
#pragma once

#include <string>

namespace tidegate::proxy {

// 16 random bytes in base64.
std::string random_websocket_key();

}  // namespace tidegate::proxy

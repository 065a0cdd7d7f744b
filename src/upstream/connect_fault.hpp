// Why a request has no connection to its server.
#pragma once

#include <cstdint>

namespace tidegate::upstream {

enum class ConnectFault : std::uint8_t {
    none,
    unreachable,
    refused,
    timeout,
    tls,
    no_http2,
    client_left
};

}  // namespace tidegate::upstream

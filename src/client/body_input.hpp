// What became of an attempt to read more of a request's body.
#pragma once

#include <cstdint>

namespace tidegate::client {

enum class BodyInput : std::uint8_t {
    more,      // there is more to take
    nothing,   // the wakeup is woken when there may be more
    too_long,  // what came does not fit into the largest buffer
    left,      // the client has closed or reset, or the proxy has cut the connection off
};

}  // namespace tidegate::client

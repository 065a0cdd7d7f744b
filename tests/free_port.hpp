// Ports for the servers that tests start.
#pragma once

#include <cstdint>

namespace tidegate::test {

// A port of 127.0.0.1 on which nothing listens. Other test programs that call this get other ports
// while this program lives, until it has taken some hundred more; and no connection of the kernel's
// choice uses it, since it lies below those ports. So test programs can run side by side.
// Throws std::runtime_error if no port is free. Any thread.
std::uint16_t free_port();

}  // namespace tidegate::test

// Listening sockets. The main thread opens them before any worker starts, so that the start fails
// if an address cannot be used.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"

namespace tidegate::app {

// Connections that wait to be accepted; the kernel lowers it to net.core.somaxconn.
inline constexpr int kBacklog = 4096;

// One listening address, as descriptors for the workers to adopt: for TCP one each, sharing the
// port (SO_REUSEPORT) so that the kernel spreads the connections; for a Unix socket, and one that
// was inherited, one, doubled.
struct ListenerGroup {
    config::Listen settings;  // with the port the system chose, if it was 0
    std::vector<int> descriptors;
    config::Address configured{};  // as the configuration has it

    // Doubles the only descriptor until there is one for each of `workers`: they accept from one
    // queue.
    void share(std::size_t workers);

    // The address, and which IP versions it takes if that is not plain from it, whether PROXY
    // headers and TLS come first, and which versions of HTTP; for the log.
    std::string to_string() const;
};

// Binds and listens for `workers` workers; at config::kEveryAddress with one socket for IPv6 and
// IPv4 each, and for IPv4 alone where the kernel has no IPv6. Tries the address without sharing
// first, which fails if another program uses it; replaces a Unix socket whose program is gone. The
// error names the address.
Result<ListenerGroup, std::string> open_listeners(const config::Listen& settings,
                                                  std::size_t workers);

// Takes over one descriptor. Connections that it accepts send at once (TCP_NODELAY), and the kernel
// holds a bounded part of what their clients do not read.
Acceptor adopt_listener(Executor executor, const config::Address& address, int descriptor);

}  // namespace tidegate::app

// Listening sockets: opened before any thread starts, so that what is wrong with one is said at
// start.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"

namespace tidegate::app {

// One listening address, as descriptors for the workers to adopt: for TCP one each, sharing the
// port (SO_REUSEPORT) so that the kernel spreads the connections; for a Unix socket one, doubled.
struct ListenerGroup {
    config::Listen settings;  // with the port the system chose, if it was 0
    std::vector<int> descriptors;
};

// Binds and listens for `workers` workers. Tries the address without sharing first, so that another
// program on it is noticed; a Unix socket that nobody listens on any more is replaced. The error
// names the address.
Result<ListenerGroup, std::string> open_listeners(const config::Listen& settings,
                                                  std::size_t workers);

// Takes over one descriptor.
Acceptor adopt_listener(Executor executor, const config::Address& address, int descriptor);

}  // namespace tidegate::app

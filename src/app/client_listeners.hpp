// What the proxy listens at for clients: the addresses of `listen`, and sockets that it inherits.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/inherited_sockets.hpp"
#include "app/listener.hpp"
#include "app/offered_listeners.hpp"
#include "base/result.hpp"
#include "config/config.hpp"

namespace tidegate::app {

// Opens each address of `config.listen` for `workers` workers, and takes those that it names out of
// `offered`, where another process has them, or `inherited`; logs the others. The error names the
// address that cannot be used. Main thread.
Result<std::vector<ListenerGroup>, std::string> open_client_listeners(const config::Config& config,
                                                                      InheritedSockets& inherited,
                                                                      OfferedListeners& offered,
                                                                      std::size_t workers);

}  // namespace tidegate::app

// How many files and sockets this process may open, and how many of them are for clients.
#pragma once

#include <cstddef>

#include "config/config.hpp"

namespace tidegate::app {

// Raises the process's limit as far as the system lets it, and returns it.
std::size_t raise_descriptor_limit();

// Of `descriptors`, how many may be connections from clients, so that silent ones leave enough for
// the admin listener, Redis, upstreams and files. At least half. Pure.
std::size_t descriptors_for_clients(std::size_t descriptors, std::size_t workers,
                                    const config::Config& config);

// Both. The log says so when it is less than `connections.max`.
std::size_t client_connections_max(std::size_t workers, const config::Config& config);

}  // namespace tidegate::app

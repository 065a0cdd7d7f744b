// What the machine allows this process: processor time, open files and sockets.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "config/config.hpp"

namespace tidegate::app {

// How much processor time the control groups of this process allow it: a container's limit, or
// `CPUQuota=` of a systemd unit.
//
// In processors: 1.5 are 150 ms of processor time each 100 ms. The smallest quota of the group and
// of those that it is in, as far as they are mounted, in cgroup v2 and in v1. Nothing: there is
// none. `root` is the folder in which `proc` and the mounts are; tests make one.
std::optional<double> cpu_quota(const std::string& root = "");

// Raises the limit on the files and sockets of this process as far as the system lets it, and
// returns it.
std::size_t raise_descriptor_limit();

// Of `descriptors`, how many may be connections from clients, so that silent ones leave enough for
// the admin listener, Redis, upstreams and files. At least half. Pure.
std::size_t descriptors_for_clients(std::size_t descriptors, std::size_t workers,
                                    const config::Config& config);

// Both. The log says so when it is less than `connections.max`.
std::size_t client_connections_max(std::size_t workers, const config::Config& config);

}  // namespace tidegate::app

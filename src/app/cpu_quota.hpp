// How much processor time the control groups of this process allow it: a container's limit, or
// `CPUQuota=` of a systemd unit.
#pragma once

#include <optional>
#include <string>

namespace tidegate::app {

// In processors: 1.5 are 150 ms of processor time each 100 ms. The smallest quota of the group and
// of those that it is in, as far as they are mounted, in cgroup v2 and in v1. Nothing: there is
// none. `root` is the folder in which `proc` and the mounts are; tests make one.
std::optional<double> cpu_quota(const std::string& root = "");

}  // namespace tidegate::app

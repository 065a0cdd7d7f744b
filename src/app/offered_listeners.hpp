// Listening sockets of a process whose place this one takes. Main thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "app/listener.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "net/descriptor.hpp"

namespace tidegate::app {

struct OfferedListener {
    std::string address;                  // as the configuration of that process has it
    std::vector<Descriptor> descriptors;  // at least one
};

using OfferedListeners = std::vector<OfferedListener>;

// Adds sockets to those of the same listener.
void add_offer(OfferedListeners& to, const std::string& address,
               std::vector<Descriptor>&& descriptors);

// Takes those at settings.address out of `offered`, for `workers` workers: one group, or one for
// each socket that the former process had inherited. Sockets that are opened for more workers do
// not listen yet: the kernel would give them connections that no worker accepts. Nothing: no socket
// is offered there. The error names the address.
std::optional<Result<std::vector<ListenerGroup>, std::string>> take_offered(
    const config::Listen& settings, OfferedListeners& offered, std::size_t workers);

// Closes what was not taken, and removes the files of Unix sockets among it that the former process
// had made.
void discard(OfferedListeners& offered);

}  // namespace tidegate::app

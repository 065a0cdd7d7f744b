// The listening sockets of the configuration: those that the service manager passes, those of the
// process whose place this one takes, and those that are opened.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "app/listener.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "net/descriptor.hpp"

namespace tidegate::app {

// Socket activation (sd_listen_fds(3)): listening sockets that a service manager such as systemd
// has opened and passes to this process, each with a name. Main thread.
struct InheritedSocket {
    std::string name;  // FileDescriptorName= of its .socket unit; several sockets may share one
    Descriptor descriptor;
};

using InheritedSockets = std::vector<InheritedSocket>;

// Takes over what LISTEN_FDS, LISTEN_FDNAMES and LISTEN_PID pass to process `pid`: descriptors from
// 3 on, which programs that this one starts do not get. None, if the variables are unset or for
// another process. What is passed but not open is logged and left out. To be called once.
InheritedSockets take_inherited_sockets(config::Environment environment, pid_t pid);

// Removes these variables, which are not for programs that this one starts. No other thread may
// read the environment meanwhile.
void clear_inheritance();

// Takes the sockets that `settings.address` names out of `sockets`, one group each: all workers
// accept from one queue, for a socket that is open already cannot be one of a group with
// SO_REUSEPORT. The error says which names there are, or which setting the socket cannot have.
// Requires settings.address.is_inherited().
Result<std::vector<ListenerGroup>, std::string> adopt_inherited(const config::Listen& settings,
                                                                InheritedSockets& sockets,
                                                                std::size_t workers);

// Listening sockets of a process whose place this one takes. Main thread.
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

// Opens each address of `config.listen` for `workers` workers, and takes those that it names out of
// `offered`, where another process has them, or `inherited`; logs the others. The error names the
// address that cannot be used. Main thread.
Result<std::vector<ListenerGroup>, std::string> open_client_listeners(const config::Config& config,
                                                                      InheritedSockets& inherited,
                                                                      OfferedListeners& offered,
                                                                      std::size_t workers);

}  // namespace tidegate::app

// Socket activation (sd_listen_fds(3)): listening sockets that a service manager such as systemd
// has opened and passes to this process, each with a name. Main thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "app/listener.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "net/descriptor.hpp"

namespace tidegate::app {

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

}  // namespace tidegate::app

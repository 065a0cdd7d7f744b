// Listening sockets: those that the service manager passes, those of the process whose place this
// one takes, and those that are opened. The main thread opens them before any worker starts, so
// that the start fails if an address cannot be used.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "net/descriptor.hpp"

namespace tidegate::app {

// Gives the socket at `path` what `wanted` names, and changes nothing else. What is wrong, as the
// end of a sentence; empty: it has both. Does not follow a link at `path`. Blocks: it looks up the
// group.
std::string set_socket_file(const std::string& path, const config::SocketFile& wanted);

// Connections that wait to be accepted; the kernel lowers it to net.core.somaxconn.
inline constexpr int kBacklog = 4096;

// One listening address, as descriptors for the workers to adopt: for TCP one each, sharing the
// port (SO_REUSEPORT) so that the kernel spreads the connections; for a Unix socket, and one that
// was inherited, one, doubled.
struct ListenerGroup {
    config::Listen settings;  // with the port the system chose, if it was 0
    std::vector<int> descriptors;
    config::Address configured{};  // as the configuration has it
    // The process whose place this one takes serves it, until this one accepts.
    bool is_borrowed = false;

    // Doubles the only descriptor until there is one for each of `workers`: they accept from one
    // queue. Throws std::system_error when the process may open no more.
    void share(std::size_t workers);

    // The address, and which IP versions it takes if that is not plain from it, whether PROXY
    // headers and TLS come first, and which versions of HTTP; for the log.
    std::string to_string() const;
};

// Takes over sockets that listen at settings.address already, for `workers` workers: opens further
// ones where each worker has a queue of its own (SO_REUSEPORT), which do not listen before
// begin_listening(), and lets workers accept from several where there are more sockets than
// workers. The error names the address. Requires a descriptor.
Result<ListenerGroup, std::string> take_listeners(const config::Listen& settings,
                                                  std::vector<Descriptor> descriptors,
                                                  std::size_t workers);

// Binds and listens for `workers` workers; at config::kEveryAddress with one socket for IPv6 and
// IPv4 each, and for IPv4 alone where the kernel has no IPv6. Tries the address without sharing
// first, which fails if another program uses it; replaces a Unix socket whose program is gone. The
// error names the address.
Result<ListenerGroup, std::string> open_listeners(const config::Listen& settings,
                                                  std::size_t workers);

// Makes a socket listen that does not yet.
void begin_listening(int descriptor);

// Where `descriptor` is bound. Empty: at an address that is none of TCP or Unix sockets.
config::Address bound_address(int descriptor);
// The value of a socket's option; -1: it has none.
int socket_option(int descriptor, int level, int name);

// Takes over one descriptor. Connections that it accepts send at once (TCP_NODELAY), and the kernel
// holds a bounded part of what their clients do not read.
Acceptor adopt_listener(Executor executor, const config::Address& address, int descriptor);

// Socket activation (sd_listen_fds(3)): listening sockets that a service manager such as systemd
// has opened and passes to this process, each with a name.
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

// Listening sockets of a process whose place this one takes.
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
// address that cannot be used.
Result<std::vector<ListenerGroup>, std::string> open_client_listeners(const config::Config& config,
                                                                      InheritedSockets& inherited,
                                                                      OfferedListeners& offered,
                                                                      std::size_t workers);

}  // namespace tidegate::app

// Tells a service manager such as systemd how this process is: the protocol of sd_notify(3), a
// datagram of assignments for each event, without libsystemd. Main thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "net/descriptor.hpp"

namespace tidegate::app {

class ServiceNotifier {
  public:
    // `socket_name` is the value of NOTIFY_SOCKET: an absolute path, or `@` and a name of the
    // abstract namespace. Empty: no service manager wants to know, and nothing is sent. A name that
    // is neither, or a machine without a descriptor to give, is logged.
    explicit ServiceNotifier(std::string socket_name);

    bool is_active() const { return static_cast<bool>(socket_); }

    // Each has the text that `systemctl status` shows: one line.
    void tell_ready(std::string_view status);
    // A reload has begun, which the next tell_ready() ends.
    void tell_reloading(std::string_view status);
    void tell_stopping(std::string_view status);
    void tell_status(std::string_view status);
    // Process `pid` is the service from now on.
    void tell_main_process(pid_t pid);
    // Nothing is sent any more.
    void fall_silent() { socket_ = Descriptor(); }
    // Every event loop turns.
    void tell_alive();

  private:
    // A full queue of the manager drops the datagram. The first failure is logged.
    void send(std::string_view assignments);

    std::string socket_name_;
    Descriptor socket_;
    bool has_failed_ = false;
};

}  // namespace tidegate::app

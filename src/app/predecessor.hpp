// The process whose place this one takes: see handover.hpp. Main thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "app/client_listeners.hpp"
#include "app/handover.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "net/descriptor.hpp"

namespace tidegate::app {

// Of a process that is to take the place of another: makes it the child of the init process or
// service manager, which then waits for its end, and tells the other its process id. Does nothing
// in another process. To be called before there is a second thread.
void leave_parent(config::Environment environment);

class Predecessor {
  public:
    // What the former process leaves to this one, each as it comes.
    struct Takers {
        std::function<void(const std::string& address, const MadeTicketKeys&)> ticket_keys;
        std::function<void(std::string_view bytes)> counts;
    };

    // Greets the process that kHandoverVariable tells of and reads which listeners it offers. Null:
    // there is none. The error is a sentence. Blocks for a while at most; to be called once, before
    // anything asks for the time of the store.
    static Result<std::unique_ptr<Predecessor>, std::string> find(config::Environment environment,
                                                                  Executor executor);

    pid_t pid() const { return pid_; }
    OfferedListeners& listeners() { return listeners_; }
    OfferedListeners& admin() { return admin_; }

    // Says that this process is ready, and takes what the former one leaves. True: this process is
    // to accept connections, also when the former one has crashed meanwhile. False: the former one
    // goes on, and this one is to stop.
    Task<bool> take_over(Takers takers);
    // Says that this process accepts connections. Until the former one has left the service to it.
    Task<> tell_accepting();
    // Until the former process has ended.
    Task<> until_gone();

  private:
    Predecessor(Executor executor, Descriptor socket);

    std::string read_offers();

    HandoverChannel channel_;
    pid_t pid_ = 0;
    OfferedListeners listeners_;
    OfferedListeners admin_;
};

}  // namespace tidegate::app

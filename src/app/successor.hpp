// The process that takes the place of this one: see handover_messages.hpp. Main thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "app/handover_channel.hpp"
#include "app/handover_messages.hpp"
#include "app/own_program.hpp"
#include "base/result.hpp"
#include "net/asio.hpp"

namespace tidegate::app {

class Successor {
  public:
    // Writes something, a piece at a time.
    using Write = std::function<void(const std::function<void(std::string_view)>&)>;

    // Starts `program`. The error says why it does not start.
    static Result<std::unique_ptr<Successor>, std::string> start(Executor executor,
                                                                 const OwnProgram& program);
    // Kills it, unless it accepts.
    ~Successor();

    pid_t pid() const { return pid_; }

    // Offers the sockets of a listener, or of the admin listener (HandoverStep::admin), at
    // `address`, as the configuration has it.
    void offer(HandoverStep step, const std::string& address, std::span<const int> descriptors);
    // No more offers. Until it is ready, or the reason why it does not become so.
    Task<std::string> until_ready(std::chrono::milliseconds patience);

    void hand_over_ticket_keys(const std::string& address, MadeTicketKeys keys);
    // False: the system has no memory for what `write` writes.
    bool hand_over_counts(const Write& write);
    // Who waits for it learns that it has ended.
    void kill() const;
    // Lets it accept connections. Until it does, and so goes on when this is gone; or the reason
    // why it does not.
    Task<std::string> until_accepting();

  private:
    Successor(Executor executor, Descriptor socket, pid_t pid);

    void say(const HandoverNote& note, std::span<const int> descriptors = {});
    Task<std::string> until_said(HandoverStep step, std::chrono::milliseconds patience);
    Task<std::string> until_ended();

    HandoverChannel channel_;
    Timer timer_;
    pid_t pid_;
    bool outlives_this_ = false;  // it accepts, or has ended by itself
};

}  // namespace tidegate::app

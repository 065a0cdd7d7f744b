// The process that takes the place of this one: see handover.hpp. Main thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "app/handover.hpp"
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
    // Ends it, unless it accepts.
    ~Successor();

    // Of the process that takes over, once that has started; before, of the one that starts it.
    pid_t pid() const { return pid_; }

    // Offers the sockets of a listener, or of the admin listener (HandoverStep::admin), at
    // `address`, as the configuration has it.
    void offer(HandoverStep step, const std::string& address, std::span<const int> descriptors);
    void hand_over_ticket_keys(const std::string& address, MadeTicketKeys keys);
    // What `write` writes, as a file in memory for hand_over_counts(); none: the system has no
    // memory for it. Any thread.
    static Descriptor save_counts(const Write& write);
    void hand_over_counts(const Descriptor& saved);

    // Each until the process has come so far. Or the reason why it does not come so far: a sentence
    // that begins with the process.
    Task<std::string> until_started(std::chrono::milliseconds patience);
    // After this there are no more offers.
    Task<std::string> until_ready(std::chrono::milliseconds patience);
    // Lets it accept. Once it does, it goes on when this is gone.
    Task<std::string> until_accepting(std::chrono::milliseconds patience);

    // It alone is the service from now on.
    void tell_leaving();
    // The task that waits for the process sees its end.
    void kill() const;

  private:
    Successor(Executor executor, Descriptor socket, pid_t child);

    void say(const HandoverNote& note, std::span<const int> descriptors = {});
    Task<std::string> until_said(HandoverStep step, std::string_view what,
                                 std::chrono::milliseconds patience);
    Task<std::string> until_ended();

    HandoverChannel channel_;
    Timer timer_;
    pid_t child_;  // makes the process that takes over, and ends; 0: it has ended
    pid_t pid_;
    bool misses_offers_ = false;
    bool outlives_this_ = false;
};

}  // namespace tidegate::app

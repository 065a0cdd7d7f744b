// Commands in the order of their replies, and which of them are out of time.
//
// Commands of one client mostly have one timeout and come in the order in which they were asked
// for, so the first that is in time ends a search for those that are not: a search costs what it
// finds, however many commands are in flight. The few that come later than their deadline would
// have them (sent a second time, or by way of another node) are kept in a heap besides. No clock
// and no I/O; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "net/deadline.hpp"

namespace tidegate::redis {

class Request;

// A command on its way.
struct Pending {
    Request* request;  // null: nobody waits any more, but its reply has a place in the queue
    SteadyTime deadline;
    bool again = false;             // its script was not known, so this is the second time
    std::uint8_t redirections = 0;  // how often other nodes have said whose it is
    bool asking = false;            // its slot is on its way there: ASKING goes before it
};

class ReplyQueue {
  public:
    bool empty() const { return commands_.empty(); }
    std::size_t size() const { return commands_.size(); }

    // The ticket of the next command; they go up by one.
    std::uint64_t next_ticket() const { return first_ticket_ + commands_.size(); }
    // Of the first command, if there is one.
    std::uint64_t first_ticket() const { return first_ticket_; }
    void push(const Pending& command);
    // Both require a command.
    const Pending& front() const { return commands_.front(); }
    Pending pop();
    // All there is; their tickets are used up.
    std::deque<Pending> take_all();

    // Appends to `late` the requests whose deadline has come, and abandons their commands: these
    // keep their places without a request. Returns how many commands it looked at.
    std::size_t take_late(SteadyTime now, std::vector<Request*>& late);

  private:
    struct Early {
        SteadyTime deadline;
        std::uint64_t ticket;
        // For a heap with the earliest at its front.
        bool operator<(const Early& other) const { return deadline > other.deadline; }
    };

    void abandon(Pending& command, std::vector<Request*>& late);

    std::deque<Pending> commands_;
    std::uint64_t first_ticket_ = 1;
    std::uint64_t searched_ = 1;  // no command with a lower ticket will be late but those in early_
    SteadyTime latest_;           // the latest deadline of all commands
    // A heap of commands whose deadline is before that of a command in front of them. Their replies
    // may have come.
    std::vector<Early> early_;
};

}  // namespace tidegate::redis

// What the tests of a hand-over share: the processes that a USR2 starts.
#pragma once

#include <sys/types.h>

#include <string>

#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/tidegate.hpp"

namespace tidegate::test {

// A process whose parent ends becomes a child of this one, which can wait for it then.
void adopt_orphans();
// The exit code of a child of this process, or 128 and its signal. Ends it after kPatience.
int wait_for(pid_t pid);
std::string process_name(pid_t pid);
// In the log of the process, and of those it has started.
bool says(const Tidegate& tidegate, const std::string& what, int times = 1);

// A configuration with which a process takes 3 seconds to start: the first check of its only server
// does not end.
std::string slow_to_start(const Socket& silent);
// Sends USR2 to a Tidegate, and returns the process that it starts: the `number`th.
pid_t start_successor(const Tidegate& tidegate, pid_t former, int number = 1);

// The process that takes over from `former`, the first one where it is 0. It ends with this.
class Heir {
  public:
    // Returns when it has taken over. `number`: it is the `number`th that was started.
    explicit Heir(const Tidegate& tidegate, pid_t former = 0, int number = 1);
    ~Heir();
    Heir(const Heir&) = delete;
    Heir& operator=(const Heir&) = delete;

    pid_t pid() const { return pid_; }
    // The exit code. Its parent has ended by then.
    int stop();
    // The same, of one that ends by itself.
    int wait();

  private:
    pid_t pid_;
};

// A Tidegate with a request in flight, which its upstream holds.
struct Busy {
    Busy();

    GatedUpstream gated;
    Tidegate tidegate;
    RawClient waiting;
};

}  // namespace tidegate::test

// Checks each server of an upstream every `every` of its `health_check`. One object for the
// process, on the main thread, so that workers do not multiply the checks.
#pragma once

#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include "net/asio.hpp"
#include "net/timed_socket.hpp"
#include "upstream/group.hpp"

namespace tidegate::upstream {

class HealthChecks {
  public:
    HealthChecks(const Executor& executor, GroupPtr group);

    // Does nothing if the upstream has no `health_check`. Spawn once; ends soon after stop().
    static Task<> run(std::shared_ptr<HealthChecks> self);
    void stop();

  private:
    using ServerPtr = std::shared_ptr<SharedServer>;

    // The checks of one server, until it drains.
    static Task<> watch(std::shared_ptr<HealthChecks> self, ServerPtr server);
    std::chrono::milliseconds next_pause();

    const Executor executor_;
    const GroupPtr group_;
    Timer changed_;  // waits for servers to come; stop() ends the wait
    std::vector<std::weak_ptr<SharedServer>> watched_;
    std::vector<Timer*> pauses_;                         // of watch()
    std::vector<std::shared_ptr<TimedSocket>> sockets_;  // of checks
    std::minstd_rand random_;
    bool stopped_ = false;
};

}  // namespace tidegate::upstream

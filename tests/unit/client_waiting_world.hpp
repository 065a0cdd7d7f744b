// The loop and the clock of a connection that waits for what precedes HTTP.
#pragma once

#include <chrono>
#include <exception>
#include <optional>

#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/deadline.hpp"

namespace tidegate::client {

struct WaitingWorld {
    void settle() {
        io.restart();
        while (io.poll() > 0) {
        }
    }
    void pass(std::chrono::milliseconds time) {
        wheel.advance(now += time);
        settle();
    }
    // Begins `wait`, which says in `end` how it has ended.
    template <class End>
    void begin(Task<End> wait, std::optional<End>& end) {
        spawn(io.get_executor(), std::move(wait),
              [&end](const std::exception_ptr& thrown, End how) {
                  if (thrown) std::rethrow_exception(thrown);
                  end = how;
              });
        settle();
    }

    asio::io_context io{1};
    Readiness readiness{io};
    SteadyTime now{};
    DeadlineWheel wheel{now};
};

}  // namespace tidegate::client

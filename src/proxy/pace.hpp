// How a client keeps up with a message: the time in which the message waited for the client, and
// the bytes that the client had moved by then. Pure: the caller supplies the time.
//
// Time in which the upstream, the store or the proxy is waited for does not count.
#pragma once

#include <chrono>
#include <cstdint>

#include "net/deadline.hpp"

namespace tidegate::proxy {

struct PaceBounds {
    std::chrono::milliseconds silence{0};  // at a time; and what a slow begin is allowed in all
    std::uint64_t rate = 0;                // bytes a second; 0: any
    std::chrono::milliseconds total{0};    // of one message; 0: any
};

class Pace {
  public:
    // The message waits for the client, who has moved `bytes` of it so far. Requires that no turn
    // is under way.
    void begin_turn(SteadyTime now, std::uint64_t bytes) {
        since_ = now;
        bytes_ = bytes;
        is_turn_ = true;
    }
    void end_turn(SteadyTime now) {
        waited_ = waited(now);
        is_turn_ = false;
    }
    bool is_clients_turn() const { return is_turn_; }

    // All turns so far.
    std::chrono::nanoseconds waited(SteadyTime now) const {
        return is_turn_ ? waited_ + (now - since_) : waited_;
    }

    // How long the client may still take in the turn that begins `now`: the silence allowed, or
    // what is left of `silence` + bytes / `rate`, or of `total`. Not positive: it had its chance.
    std::chrono::milliseconds patience(const PaceBounds& bounds, SteadyTime now) const;

    // How far the client is behind `rate` bytes a second; negative: ahead. Requires a rate.
    std::chrono::nanoseconds lag(std::uint64_t rate, SteadyTime now) const;

  private:
    SteadyTime since_{};  // of this turn
    std::chrono::nanoseconds waited_{0};
    std::uint64_t bytes_ = 0;
    bool is_turn_ = false;
};

}  // namespace tidegate::proxy

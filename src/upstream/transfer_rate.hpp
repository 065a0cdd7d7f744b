// How fast a client sends or takes a message: the time for which the message waited for the client,
// and the bytes that the client had moved by then. Pure: the caller supplies the time.
//
// Time in which the message waits for the upstream, the store or the proxy does not count.
#pragma once

#include <chrono>
#include <cstdint>

#include "net/deadline.hpp"

namespace tidegate::upstream {

struct TransferBounds {
    std::chrono::milliseconds idle{0};   // for each wait; a slow begin may take this long in all
    std::uint64_t rate_min = 0;          // bytes a second; 0: no bound
    std::chrono::milliseconds total{0};  // of all waits for one message; 0: no bound
};

class TransferRate {
  public:
    // The message waits for the client, which has moved `bytes` of it so far. Requires that no wait
    // has begun.
    void begin_wait(SteadyTime now, std::uint64_t bytes) {
        since_ = now;
        bytes_ = bytes;
        is_waiting_ = true;
    }
    void end_wait(SteadyTime now) {
        waited_ = waited(now);
        is_waiting_ = false;
    }
    bool is_waiting() const { return is_waiting_; }
    // The client has moved `bytes` so far: a wait for many need not end before that counts.
    void note(std::uint64_t bytes) { bytes_ = bytes; }

    // In all waits so far.
    std::chrono::nanoseconds waited(SteadyTime now) const {
        return is_waiting_ ? waited_ + (now - since_) : waited_;
    }

    // How long the wait that begins `now` may last: `idle`, or what is left of
    // `idle` + bytes / `rate_min`, or of `total`. Not positive: the client is too slow.
    std::chrono::milliseconds time_left(const TransferBounds& bounds, SteadyTime now) const;

    // How far the client is behind `rate` bytes a second; negative: ahead. Requires rate > 0.
    std::chrono::nanoseconds lag(std::uint64_t rate, SteadyTime now) const;

  private:
    SteadyTime since_{};  // of this wait
    std::chrono::nanoseconds waited_{0};
    std::uint64_t bytes_ = 0;
    bool is_waiting_ = false;
};

}  // namespace tidegate::upstream

// How fast a client sends or takes a message: the time for which the message waited for the client,
// and the bytes that the client had moved by then. Pure: the caller supplies the time.
//
// Time in which the message waits for the upstream or the store does not count. While the client is
// held back, because the proxy gives it no room to send, the message still waits for it: that time
// counts for `total` and for lag(), by which requests make room for others, but not as the client's
// silence, nor against its pace.
#pragma once

#include <chrono>
#include <cstdint>

#include "net/deadline.hpp"

namespace tidegate::upstream {

struct TransferBounds {
    std::chrono::milliseconds idle{0};   // for each wait; a slow begin may take this long in all
    std::uint64_t rate_min = 0;          // bytes a second; 0: no bound
    std::chrono::milliseconds total{0};  // of all waits, held back or not; 0: no bound
};

class TransferRate {
  public:
    // The message waits for the client, which has moved `bytes` of it so far. Requires that no wait
    // has begun.
    void begin_wait(SteadyTime now, std::uint64_t bytes) {
        since_ = now;
        bytes_ = bytes;
        is_waiting_ = true;
        had_room_ = now;
        held_back_before_ = held_back_;
    }
    void end_wait(SteadyTime now) {
        let_go(now);
        waited_ = waited(now);
        is_waiting_ = false;
    }
    bool is_waiting() const { return is_waiting_; }
    // The client turns out to be held back. It counts as held back since the wait began, or since
    // let_go(): when it lost its room in between, nothing tells. Requires a wait.
    void hold_back() { is_held_back_ = true; }
    void let_go(SteadyTime now) {
        held_back_ = held_back(now);
        had_room_ = now;
        is_held_back_ = false;
    }
    bool is_held_back() const { return is_held_back_; }
    // The client has moved `bytes` so far: a wait for many need not end before that counts.
    void note(std::uint64_t bytes) { bytes_ = bytes; }

    // In all waits so far.
    std::chrono::nanoseconds waited(SteadyTime now) const {
        return is_waiting_ ? waited_ + (now - since_) : waited_;
    }
    // In how much of that the client was held back.
    std::chrono::nanoseconds held_back(SteadyTime now) const {
        return is_held_back_ ? held_back_ + (now - had_room_) : held_back_;
    }

    // How long the wait may still last, if the client is not held back again: what is left of
    // `idle`, of `idle` + bytes / `rate_min`, or of `total`. Not positive: the client is too slow.
    std::chrono::milliseconds time_left(const TransferBounds& bounds, SteadyTime now) const;

    // How far the client is behind `rate` bytes a second in all its waits, held back or not;
    // negative: ahead. Requires rate > 0.
    std::chrono::nanoseconds lag(std::uint64_t rate, SteadyTime now) const;

  private:
    SteadyTime since_{};  // of this wait
    std::chrono::nanoseconds waited_{0};
    std::uint64_t bytes_ = 0;
    SteadyTime had_room_{};  // in this wait, as far as known
    std::chrono::nanoseconds held_back_{0};
    std::chrono::nanoseconds held_back_before_{0};  // this wait
    bool is_waiting_ = false;
    bool is_held_back_ = false;
};

}  // namespace tidegate::upstream

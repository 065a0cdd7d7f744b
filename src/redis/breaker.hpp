// When a Redis counts as down, when the client tries it again, and when it is back.
//
//     connecting --connected--> up --connection lost--> connecting
//     connecting, up --open()--> down --connected--> up
//
// While connecting, commands wait, within their deadlines: a connection that was just lost is made
// again at once, a few times a second. The breaker opens when an attempt to connect fails, when the
// pause before the next one is longer than a command may wait, or when so many commands in a row
// were not answered in time; commands are then refused, and the client tries to connect with
// growing, jittered pauses. No I/O and no clock; one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>

#include "net/deadline.hpp"

namespace tidegate::redis {

using std::chrono::milliseconds;

class Breaker {
  public:
    struct Options {
        int failures = 5;                 // unanswered commands in a row that open it
        milliseconds timeout{100};        // of a command
        milliseconds probe_every{1'000};  // the longest pause between attempts to connect
        // Unanswered commands in a row, of all breakers made with copies of these options: a
        // process with many threads and few requests notices a dead Redis as soon as one with one.
        std::shared_ptr<std::atomic<int>> unanswered = std::make_shared<std::atomic<int>>(0);
    };
    // So many connections in a row, and so many a second, are made again at once.
    static constexpr int kReconnects = 5;

    explicit Breaker(Options options) : options_(std::move(options)) {}

    bool is_up() const { return state_ == State::up; }
    bool is_down() const { return state_ == State::down; }

    // The handshake succeeded. True: Redis was down and is back.
    bool on_connected(SteadyTime now);
    // The connection is lost, or is given up for another.
    void on_connection_lost();
    // A reply arrived within its deadline.
    void on_answer() {
        was_answered_ = true;
        unanswered_ = 0;
        // Read first: all threads share it, and a write on every reply would be passed around.
        if (options_.unanswered->load(std::memory_order_relaxed) != 0) *options_.unanswered = 0;
    }
    // `count` commands were not answered in time.
    void on_timeouts(int count);

    // Whether so many commands in a row went unanswered that the caller has to open it.
    bool must_open() const;
    int unanswered_in_a_row() const { return std::max(unanswered_, options_.unanswered->load()); }
    // True: it was not open.
    bool open() { return std::exchange(state_, State::down) != State::down; }

    // How long to wait after an attempt to connect has failed.
    milliseconds pause_after_failure(std::minstd_rand& random);
    // How long to wait after a connection has ended that was up.
    milliseconds pause_after_loss(SteadyTime now, std::minstd_rand& random);
    // Whether no command can wait for what comes after `pause`: the caller has to open it.
    bool outlasts_commands(milliseconds pause) const { return pause >= options_.timeout; }
    // The next pauses are short again.
    void reset_pauses() { last_pause_ = milliseconds{0}; }

  private:
    enum class State : std::uint8_t { connecting, up, down };

    bool may_reconnect(SteadyTime now);

    Options options_;
    State state_ = State::connecting;
    int unanswered_ = 0;  // in a row, of this breaker
    SteadyTime connected_at_;
    bool was_answered_ = false;  // since then
    milliseconds last_pause_{0};
    SteadyTime reconnects_spent_until_;
};

}  // namespace tidegate::redis

// Whether a client takes what waits for it: in each span of `client_write`, kBytesMin at least, or
// all there is. Pure: the caller supplies the time and counts the bytes.
//
// A span begins with a wait, goes on through further waits, and begins anew once the client has
// taken kBytesMin or there is nothing more for it. Time in which nothing waits for the client does
// not count.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "net/deadline.hpp"

namespace tidegate::client {

class WritePace {
  public:
    static constexpr std::int64_t kBytesMin = 4'096;

    // Something waits for the client, which has taken `taken` bytes in all. Only the growth of
    // `taken` counts, so that it may be off, and negative, by what frames the bytes.
    void begin_wait(SteadyTime now, std::int64_t taken) {
        since_ = now;
        note(now, taken);
    }
    // How long the client may still let it wait. Not positive: it is too slow. Only in a wait.
    std::chrono::milliseconds time_left(std::chrono::milliseconds patience, SteadyTime now,
                                        std::int64_t taken) {
        note(now, taken);
        return std::chrono::ceil<std::chrono::milliseconds>(patience - waited_);
    }
    // Nothing waits for the client now. There may be more.
    void end_wait(SteadyTime now) { waited_ += now - since_; }
    // The client has taken all there is.
    void restart() {
        waited_ = {};
        taken_in_span_ = 0;
    }

  private:
    void note(SteadyTime now, std::int64_t taken) {
        waited_ += now - since_;
        since_ = now;
        taken_in_span_ += std::max<std::int64_t>(taken - taken_, 0);
        taken_ = taken;
        if (taken_in_span_ >= kBytesMin) restart();
    }

    SteadyTime since_{};                  // of this wait, or of the last look at it
    std::chrono::nanoseconds waited_{0};  // in this span
    std::int64_t taken_ = 0;
    std::int64_t taken_in_span_ = 0;
};

}  // namespace tidegate::client

// A coroutine's sleep with a deadline.
#pragma once

#include <chrono>

#include "net/deadline.hpp"
#include "net/wakeup.hpp"

namespace tidegate {

// Wakes for whoever calls wakeup(), and when the time allowed has run out. Single-threaded.
class Sleeper {
  public:
    Sleeper(Executor executor, DeadlineWheel& wheel)
        : wheel_(wheel), wakeup_(std::move(executor)), deadline_(&Sleeper::on_expired, this) {}

    // From now on. Replaces what was allowed before.
    void allow(std::chrono::milliseconds time) {
        expired_ = false;
        wheel_.set(deadline_, time);
    }
    void allow_forever() {
        expired_ = false;
        deadline_.clear();
    }
    bool expired() const { return expired_; }

    // To a tick of the wheel: costs nothing.
    SteadyTime now() const { return wheel_.now(); }

    auto sleep() { return wakeup_.wait(); }
    // For who could go on without ever waiting: lets the others have their turn.
    auto step_aside() { return wakeup_.step_aside(); }
    Wakeup& wakeup() { return wakeup_; }

  private:
    static void on_expired(void* self) {
        auto& sleeper = *static_cast<Sleeper*>(self);
        sleeper.expired_ = true;
        sleeper.wakeup_.wake_later();
    }

    DeadlineWheel& wheel_;
    Wakeup wakeup_;
    Deadline deadline_;
    bool expired_ = false;
};

}  // namespace tidegate

// Which failures of something that Tidegate tries again and again become a warning: the first one,
// each one whose reason differs from that of the last warning, and one an hour while it goes on.
//
// Not thread-safe. Time is an argument.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "net/deadline.hpp"

namespace tidegate::app {

class FailureNotice {
  public:
    static constexpr std::chrono::hours kEvery{1};

    // Notes a failure. Whether it is to be told.
    bool is_due(const std::string& reason, SteadyTime now) {
        if (told_ == reason && now < due_) return false;
        told_ = reason;
        due_ = now + kEvery;
        return true;
    }

    // It went well: the next failure is a first one.
    void recovered() { told_.reset(); }

  private:
    std::optional<std::string> told_;  // the reason of the last warning, since it went well
    SteadyTime due_{};                 // of the next one with that reason
};

}  // namespace tidegate::app

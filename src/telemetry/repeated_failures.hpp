// Failures that repeat, such as a server that refuses connections: one line a minute for each, over
// all threads, with how often it happened.
//
// Any thread, under a lock that is held for a moment; for failures only, never for what goes well
// in the usual way. Holds at most kKindsMax kinds. Time is an argument.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace tidegate::telemetry {

class RepeatedFailures {
  public:
    using Time = std::chrono::steady_clock::time_point;

    static constexpr std::size_t kKindsMax = 256;
    static constexpr std::chrono::minutes kEvery{1};

    // Notes one failure of this kind. How many there were since the last line, this one included,
    // if a line is due; else 0.
    std::uint64_t note(std::string_view kind, Time now);
    // It went well again. True if a line has told of the failure since it last did.
    bool recovered(std::string_view kind);

  private:
    struct Kind {
        Time due{};                // of the next line
        std::uint64_t untold = 0;  // failures since the last line
        bool was_told = false;     // since it last went well
    };

    void make_room();

    std::mutex mutex_;
    std::map<std::string, Kind, std::less<>> kinds_;  // guarded by mutex_
};

// Those of this process.
RepeatedFailures& repeated_failures();

// The end of a line about `times` failures: ` (30 times since the last such line)`; empty for one.
std::string times_text(std::uint64_t times);

}  // namespace tidegate::telemetry

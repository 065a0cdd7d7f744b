// A Recording holds the requests of some identifiers, with what their limits need, for `tidegate
// simulate --record`.
//
// A worker has a Recording only while the admin listener asks for one: no other request pays for
// it. What a client could be known by leaves the process as a digest with a key of the recording.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ask/decision.hpp"
#include "identity/digest.hpp"

namespace tidegate::proxy {

// The recordings of all workers share a plan. Immutable.
struct RecordingPlan {
    static constexpr std::int64_t kAll = 1'000'000;

    identity::KeyedDigest names{};      // of identifiers, with a new key
    std::int64_t share = kAll;          // of the identifiers, in parts of a million
    std::size_t bytes_max = 1U << 20;   // of lines that wait in a worker
    std::chrono::seconds patience{10};  // without take(), the recording ends
};

// The recording of one worker, on its thread.
class Recording {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // A request that the limiter has decided.
    struct Request {
        const ask::Decision& decision;
        std::chrono::system_clock::time_point began;
        int status = 0;                           // 0: not known
        std::chrono::microseconds took{-1};       // below 0: not known
        std::span<const std::int64_t> settled{};  // what each item has cost; below 0: as reserved
    };

    Recording(std::shared_ptr<const RecordingPlan> plan, Time now)
        : plan_(std::move(plan)), ends_(now + plan_->patience) {}

    // Writes a line if one of the request's identifiers is of the share. Counts it where there is
    // no room.
    void add(const Request& request);

    struct Portion {
        std::string lines;           // JSON, each with a line end
        std::uint64_t left_out = 0;  // lines without room, since the recording began
    };
    // Returns the lines that were written since the last call.
    Portion take(Time now);
    // Whether take() was not called for as long as the plan waits.
    bool has_ended(Time now) const { return now >= ends_; }

  private:
    std::shared_ptr<const RecordingPlan> plan_;
    Time ends_;
    std::string lines_;
    std::string line_;
    std::uint64_t left_out_ = 0;
};

}  // namespace tidegate::proxy

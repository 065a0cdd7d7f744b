// Whom a thread's requests are counted for and which it refuses, for people who look: the most
// frequent identifiers and the last denials.
//
// One a worker, on its thread. It holds names of clients; they leave it only through the admin
// listener.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "telemetry/denials.hpp"
#include "telemetry/top_names.hpp"

namespace tidegate::telemetry {

class Activity {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // What it keeps while it is on. Takes about 650 KiB of addresses at 1,024 names, and memory
    // once names come.
    struct Names {
        Names(std::size_t names_max, std::uint64_t secret)
            : requests(names_max, secret), denials(names_max, secret), denied(secret) {}

        TopNames requests;  // identifiers of all requests
        TopNames denials;   // identifiers that were over a limit
        DenialLog denied;
    };

    // Keeps `names_max` names of each kind from now on; 0: none, and no denials. What was kept
    // stays if the number does. Throws std::bad_alloc; then nothing has changed.
    void set_names_max(std::size_t names_max);

    std::size_t names_max() const { return names_max_; }
    // Another one after set_names_max() has begun anew.
    std::uint64_t version() const { return version_; }
    // Null: off.
    Names* names() { return names_.get(); }

  private:
    std::size_t names_max_ = 0;
    std::uint64_t version_ = 0;
    std::unique_ptr<Names> names_;
};

// Of what a thread remembers, what the admin listener asks for.
enum class ActivityKind : std::uint8_t {
    top_requests,  // identifiers with most requests
    top_denials,   // identifiers that were most often over a limit
    denials,       // the last requests that a limit refused
};

// What the admin listener shows of a thread, as a value of its own. Made in pieces, so that
// requests wait for one piece at most.
struct ActivityCopy {
    static constexpr std::size_t kPieceDenials = 16;

    // The next piece; true: it was the last one. On the thread of `activity`.
    bool add_piece(Activity& activity, ActivityKind kind, Activity::Time now);

    NamesCopy names;              // of the kind asked for
    std::vector<Denial> denials;  // oldest first
    std::uint64_t denials_left_out = 0;
    std::uint64_t version = 0;  // of what the pieces so far are of
};

}  // namespace tidegate::telemetry

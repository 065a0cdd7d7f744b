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
    // Null: off.
    Names* names() { return names_.get(); }

  private:
    std::size_t names_max_ = 0;
    std::unique_ptr<Names> names_;
};

// What the admin listener shows of a thread, as a value of its own.
struct ActivityCopy {
    std::vector<CountedNames> names;  // of the kind asked for
    std::vector<Denial> denials;      // newest first
    std::uint64_t denials_left_out = 0;
};

}  // namespace tidegate::telemetry

// What a client may do on one HTTP/2 connection that costs the proxy work and serves no request:
// resets, SETTINGS, PING, PRIORITY, empty frames and the like, from one bucket. Pure: time is an
// argument.
//
// The bucket fills up at a fixed rate, and by one for each answer that ended well: a fixed rate
// alone would disconnect a busy gateway for the few of its many requests that it cancels.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/units.hpp"

namespace tidegate::h2 {

using Time = std::chrono::steady_clock::time_point;

struct AbuseLimit {
    std::uint32_t burst = 1'000;
    Rate per{100, std::chrono::seconds{1}};
};

class AbuseBudget {
  public:
    // Full at first. Requires a quota of at least 1.
    explicit AbuseBudget(const AbuseLimit& limit);

    // False: there was nothing left to take.
    bool take(Time now);
    // How many there are to take.
    std::uint32_t left(Time now) const;
    // An answer ended well.
    void give_one() { full_at_ -= interval_; }

  private:
    std::chrono::nanoseconds interval_;  // in which one comes back
    std::chrono::nanoseconds depth_;     // the burst, as time
    Time full_at_{};
};

// How many WINDOW_UPDATE frames are worth their bytes: an honest client sends them for DATA that it
// has been sent, at most one a frame or, where it reads in small portions, one for every 4 KiB.
class UpdateAllowance {
  public:
    // `is_cut_small`: the client's window left room for a few bytes only, though there was more to
    // send. Such frames earn nothing, or a client could have an answer sent byte by byte.
    void data_was_sent(std::uint32_t bytes, bool is_cut_small);
    // False: the frame costs something.
    bool take();
    // A closed stream's client does not know of its end yet.
    void add(const UpdateAllowance& other);

  private:
    std::uint32_t frames_ = 1;  // many clients enlarge a window before anything is sent
};

}  // namespace tidegate::h2

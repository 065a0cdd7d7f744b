// Deadlines that cost nothing to set: a number in a list that one coarse timer sweeps.
//
// A deadline fires late by at most two ticks, and never early as long as advance() is called every
// tick, or catch_up() before it where the loop stood still. Single-threaded: one wheel a worker.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include <boost/intrusive/list.hpp>

#include "base/timestamp.hpp"

namespace tidegate {

class DeadlineWheel;

// Bounds how long something may last. Its owner derives from it or holds it; destroying it takes it
// off the wheel.
class Deadline : public boost::intrusive::list_base_hook<
                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    using OnExpired = void (*)(void* owner);

    Deadline(OnExpired on_expired, void* owner) : on_expired_(on_expired), owner_(owner) {}
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;

    void clear() { tick_ = kNone; }
    bool is_set() const { return tick_ != kNone; }

  private:
    friend class DeadlineWheel;
    static constexpr std::int64_t kNone = INT64_MAX;

    OnExpired on_expired_;
    void* owner_;
    std::int64_t tick_ = kNone;       // when it expires
    std::int64_t set_tick_ = kNone;   // when it was set
    std::int64_t slot_tick_ = kNone;  // when the wheel will look at it; never later than tick_
};

class DeadlineWheel {
  public:
    static constexpr std::chrono::milliseconds kTick{50};

    explicit DeadlineWheel(SteadyTime now) : start_(now) {}

    // `deadline` fires `after` from now. Moving it to later is one store: the sweep that finds it
    // too early puts it where it belongs.
    void set(Deadline& deadline, std::chrono::milliseconds after);

    // The time of the last advance(), to a tick: a clock that costs nothing to read.
    SteadyTime now() const { return start_ + now_tick_ * kTick; }

    // If the loop has stood still, what was set since the last advance() counts from `now`: the
    // loop may have set it when it went on, before it looked at the clock. Fires nothing.
    void catch_up(SteadyTime now);

    // Fires what has expired by `now`; call it once a tick. What fires may set, clear or destroy
    // any deadline.
    void advance(SteadyTime now);

  private:
    using List = boost::intrusive::list<Deadline, boost::intrusive::constant_time_size<false>>;
    static constexpr std::size_t kSlots = 256;

    void place(Deadline& deadline);
    void sweep(List& slot);

    SteadyTime start_;
    std::int64_t now_tick_ = 0;
    std::array<List, kSlots> slots_;
};

}  // namespace tidegate

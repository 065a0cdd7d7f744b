#include "net/deadline.hpp"

#include <algorithm>

namespace tidegate {

void DeadlineWheel::set(Deadline& deadline, std::chrono::milliseconds after) {
    deadline.set_tick_ = now_tick_;
    // Two ticks of slack: the one that is under way and the one it expires in.
    deadline.tick_ = now_tick_ + after / kTick + 2;
    if (!deadline.is_linked() || deadline.slot_tick_ > deadline.tick_) place(deadline);
}

void DeadlineWheel::place(Deadline& deadline) {
    deadline.unlink();
    deadline.slot_tick_ =
        std::min(deadline.tick_, now_tick_ + static_cast<std::int64_t>(kSlots) - 1);
    slots_[static_cast<std::size_t>(deadline.slot_tick_) % kSlots].push_back(deadline);
}

void DeadlineWheel::catch_up(SteadyTime now) {
    // A tick that comes a little late is no standstill.
    constexpr std::int64_t kTicksLateMax = 2;
    const std::int64_t late = (now - start_) / kTick - now_tick_;
    if (late <= kTicksLateMax) return;
    for (List& slot : slots_) {
        for (Deadline& deadline : slot) {
            if (deadline.is_set() && deadline.set_tick_ == now_tick_) deadline.tick_ += late - 1;
        }
    }
}

void DeadlineWheel::advance(SteadyTime now) {
    const std::int64_t target = (now - start_) / kTick;
    while (now_tick_ < target) {
        ++now_tick_;
        sweep(slots_[static_cast<std::size_t>(now_tick_) % kSlots]);
    }
}

void DeadlineWheel::sweep(List& slot) {
    // Off the wheel first: a deadline that fires may set others that belong into this very slot.
    List due;
    due.swap(slot);
    while (!due.empty()) {
        Deadline& deadline = due.front();
        due.pop_front();
        if (deadline.tick_ > now_tick_) {
            if (deadline.is_set()) place(deadline);
            continue;
        }
        deadline.clear();
        deadline.on_expired_(deadline.owner_);
    }
}

}  // namespace tidegate

#include "store/process_clock.hpp"

#include <atomic>

namespace tidegate::store {

using limit::Micros;

namespace {

Micros steady_time() {
    return std::chrono::duration_cast<Micros>(std::chrono::steady_clock::now().time_since_epoch());
}

Micros time_of(std::chrono::system_clock::time_point wall) {
    return std::chrono::duration_cast<Micros>(wall.time_since_epoch());
}

// By how much the clocks of process_now() are ahead of the machine's monotonic one.
struct ClockOffsets {
    std::atomic<std::int64_t> steady_us;
    std::atomic<std::int64_t> wall_us;
    std::atomic<std::uint64_t> steps{0};

    explicit ClockOffsets(Micros offset) : steady_us(offset.count()), wall_us(offset.count()) {}
};

ClockOffsets& clock_offsets() {
    static ClockOffsets offsets(time_of(std::chrono::system_clock::now()) - steady_time());
    return offsets;
}

}  // namespace

limit::Micros process_clock_offset() {
    return Micros{clock_offsets().steady_us.load(std::memory_order_relaxed)};
}

void set_process_clock_offset(limit::Micros offset) {
    clock_offsets().steady_us.store(offset.count(), std::memory_order_relaxed);
}

void follow_wall_clock(std::chrono::system_clock::time_point wall) {
    constexpr Micros kStep = std::chrono::seconds{1};
    ClockOffsets& offsets = clock_offsets();
    const Micros offset = time_of(wall) - steady_time();
    const Micros before{offsets.wall_us.exchange(offset.count(), std::memory_order_relaxed)};
    if (std::chrono::abs(offset - before) > kStep) {
        offsets.steps.fetch_add(1, std::memory_order_relaxed);
    }
}

std::uint64_t wall_clock_steps() {
    return clock_offsets().steps.load(std::memory_order_relaxed);
}

limit::Now process_now() {
    const ClockOffsets& offsets = clock_offsets();
    const Micros machine = steady_time();
    return {machine + Micros{offsets.steady_us.load(std::memory_order_relaxed)},
            machine + Micros{offsets.wall_us.load(std::memory_order_relaxed)}};
}

}  // namespace tidegate::store

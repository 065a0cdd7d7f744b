#include "upstream/transfer_rate.hpp"

#include <algorithm>

namespace tidegate::upstream {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// How long `bytes` take at `rate` a second. Above ten years it is ten years: sums do not overflow.
nanoseconds time_of(std::uint64_t bytes, std::uint64_t rate) {
    constexpr std::uint64_t kSecondsMax = 10ULL * 365 * 24 * 3'600;
    constexpr std::uint64_t kMillisecond = 1'000;
    const std::uint64_t seconds = std::min(bytes / rate, kSecondsMax);
    // The rest is below the rate, so this stays exact up to rates of 2^54.
    const std::uint64_t rest = (bytes % rate) * kMillisecond / rate;
    return milliseconds{seconds * kMillisecond + rest};
}

}  // namespace

milliseconds TransferRate::time_left(const TransferBounds& bounds, SteadyTime now) const {
    const nanoseconds held = held_back(now);
    nanoseconds left = bounds.idle;
    if (is_waiting_) left -= (now - since_) - (held - held_back_before_);
    if (bounds.rate_min > 0) left = std::min(left, bounds.idle - lag(bounds.rate_min, now) + held);
    if (bounds.total > milliseconds{0}) left = std::min(left, bounds.total - waited(now));
    return std::chrono::ceil<milliseconds>(left);
}

nanoseconds TransferRate::lag(std::uint64_t rate, SteadyTime now) const {
    return waited(now) - time_of(bytes_, rate);
}

}  // namespace tidegate::upstream

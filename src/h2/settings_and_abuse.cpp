#include "h2/settings_and_abuse.hpp"

#include <algorithm>

namespace tidegate::h2 {

namespace {

constexpr std::uint32_t kAllowanceMax = 1'000'000;
constexpr std::uint32_t kSmallestRead = 4'096;

}  // namespace

AbuseBudget::AbuseBudget(const AbuseLimit& limit)
    : interval_(std::chrono::nanoseconds(limit.per.per) / limit.per.quota),
      depth_(interval_ * limit.burst) {}

bool AbuseBudget::take(Time now) {
    const Time full_at = std::max(full_at_, now) + interval_;
    if (full_at - now > depth_) return false;
    full_at_ = full_at;
    return true;
}

std::uint32_t AbuseBudget::left(Time now) const {
    const auto used = std::max(full_at_, now) - now;
    return used < depth_ ? static_cast<std::uint32_t>((depth_ - used) / interval_) : 0;
}

void UpdateAllowance::data_was_sent(std::uint32_t bytes, bool is_cut_small) {
    if (!is_cut_small) frames_ = std::min(frames_ + 1 + bytes / kSmallestRead, kAllowanceMax);
}

bool UpdateAllowance::take() {
    if (frames_ == 0) return false;
    --frames_;
    return true;
}

void UpdateAllowance::add(const UpdateAllowance& other) {
    frames_ = std::min(frames_ + other.frames_, kAllowanceMax);
}

}  // namespace tidegate::h2

#include "telemetry/activity.hpp"

#include <random>

namespace tidegate::telemetry {

void Activity::set_names_max(std::size_t names_max) {
    if (names_max == names_max_) return;
    names_.reset();
    names_max_ = names_max;
    if (names_max == 0) return;
    std::random_device random;
    const std::uint64_t secret = std::uint64_t{random()} << 32 | random();
    names_ = std::make_unique<Names>(names_max, secret);
}

}  // namespace tidegate::telemetry

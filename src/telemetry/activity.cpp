#include "telemetry/activity.hpp"

#include <random>
#include <utility>

namespace tidegate::telemetry {

void Activity::set_names_max(std::size_t names_max) {
    if (names_max == names_max_) return;
    std::unique_ptr<Names> names;
    if (names_max != 0) {
        std::random_device random;
        const std::uint64_t secret = std::uint64_t{random()} << 32 | random();
        names = std::make_unique<Names>(names_max, secret);
    }
    names_ = std::move(names);
    names_max_ = names_max;
}

}  // namespace tidegate::telemetry

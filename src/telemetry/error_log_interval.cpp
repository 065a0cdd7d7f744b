#include "telemetry/error_log_interval.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tidegate::telemetry {

std::uint64_t RepeatedFailures::note(std::string_view kind, Time now) {
    const std::lock_guard lock(mutex_);
    auto found = kinds_.find(kind);
    if (found == kinds_.end()) {
        make_room();
        found = kinds_.emplace(kind, Repeats{now, 0, false}).first;
    }
    Repeats& one = found->second;
    ++one.untold;
    if (now < one.due) return 0;
    one.due = now + kEvery;
    one.was_told = true;
    return std::exchange(one.untold, 0);
}

bool RepeatedFailures::recovered(std::string_view kind) {
    const std::lock_guard lock(mutex_);
    const auto found = kinds_.find(kind);
    return found != kinds_.end() && std::exchange(found->second.was_told, false);
}

// Forgets the kind whose last line is the oldest.
void RepeatedFailures::make_room() {
    if (kinds_.size() < kKindsMax) return;
    kinds_.erase(std::min_element(kinds_.begin(), kinds_.end(), [](const auto& a, const auto& b) {
        return a.second.due < b.second.due;
    }));
}

RepeatedFailures& repeated_failures() {
    static RepeatedFailures failures;
    return failures;
}

std::string times_text(std::uint64_t times) {
    return times > 1 ? fmt::format(" ({} times since the last such line)", times) : std::string();
}

}  // namespace tidegate::telemetry

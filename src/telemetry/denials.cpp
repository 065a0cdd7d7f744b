#include "telemetry/denials.hpp"

#include <algorithm>

#include "base/keyed_hash.hpp"

namespace tidegate::telemetry {

bool DenialLog::admits(std::string_view identifier, Time now) {
    constexpr std::chrono::seconds kSecond{1};
    if (now >= ends_) {
        ends_ = now + kSecond;
        identifiers_ = kept_in_all_ = 0;
    }
    if (kept_in_all_ == kOfAllASecond) {
        ++left_out_;
        return false;
    }
    const std::uint64_t hash = hash_text(identifier, secret_, secret_);
    const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(identifiers_);
    auto found =
        std::find_if(kept_.begin(), end, [&](const Kept& one) { return one.hash == hash; });
    if (found == end) {
        *found = {hash, 0};
        ++identifiers_;
    }
    if (found->times == kOfOneASecond) {
        ++left_out_;
        return false;
    }
    ++found->times;
    ++kept_in_all_;
    return true;
}

void DenialLog::keep(const DenialView& denial, std::chrono::system_clock::time_point time) {
    const auto set = [](std::string& to, std::string_view from) {
        to.assign(from.substr(0, kTextBytesMax));
    };
    if (ring_.size() < kKept) ring_.emplace_back();
    Denial& kept = ring_[last_number_ % kKept];
    kept.number = ++last_number_;
    kept.time = time;
    set(kept.request_id, denial.request_id);
    set(kept.identifier, denial.identifier);
    set(kept.route, denial.route);
    set(kept.policy, denial.policy);
    set(kept.limit, denial.limit);
    kept.count = denial.count;
    kept.quota = denial.quota;
    kept.retry_after_seconds = denial.retry_after_seconds;
}

std::vector<Denial> DenialLog::after(std::uint64_t number, std::size_t count_max) const {
    const std::uint64_t oldest = last_number_ - ring_.size() + 1;
    std::vector<Denial> found;
    for (std::uint64_t n = std::max(number + 1, oldest); n <= last_number_; ++n) {
        if (found.size() == count_max) break;
        found.push_back(ring_[(n - 1) % kKept]);
    }
    return found;
}

}  // namespace tidegate::telemetry

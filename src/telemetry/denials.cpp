#include "telemetry/denials.hpp"

#include <algorithm>

#include "base/secrets.hpp"

namespace tidegate::telemetry {

namespace {

template <class Value>
void forget(Value& value) {
    value = Value();
}
void forget(DenialText& text) {
    text = std::string_view();  // and keeps its memory
}

}  // namespace

bool DenialLog::admits(std::string_view identifier, Time now) {
    constexpr std::chrono::seconds kSecond{1};
    if (now >= ends_) {
        ends_ = now + kSecond;
        identifiers_ = kept_in_all_ = 0;
    }
    if (kept_in_all_ == kDenialsPerSecond) {
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
    if (found->times == kDenialsPerIdentifierPerSecond) {
        ++left_out_;
        return false;
    }
    ++found->times;
    ++kept_in_all_;
    return true;
}

Denial& DenialLog::keep(std::chrono::system_clock::time_point time) {
    if (ring_.size() < kKept) ring_.emplace_back();
    Denial& kept = ring_[last_number_ % kKept];
    for (const DenialField& field : kDenialFields) {
        std::visit([&](const auto member) { forget(kept.*member); }, field.member);
    }
    kept.number = ++last_number_;
    kept.time = time;
    return kept;
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

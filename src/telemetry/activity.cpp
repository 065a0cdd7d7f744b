#include "telemetry/activity.hpp"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

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
    ++version_;
}

bool ActivityCopy::add_piece(Activity& activity, ActivityKind kind, Activity::Time now) {
    if (version != activity.version()) {
        *this = {};
        version = activity.version();
    }
    Activity::Names* const from = activity.names();
    if (from == nullptr) return true;
    if (kind == ActivityKind::top_requests) return from->requests.copy_piece(names, now);
    if (kind == ActivityKind::top_denials) return from->denials.copy_piece(names, now);
    const std::uint64_t last = denials.empty() ? 0 : denials.back().number;
    denials.reserve(DenialLog::kKept);
    auto piece = from->denied.after(last, kPieceDenials);
    std::move(piece.begin(), piece.end(), std::back_inserter(denials));
    denials_left_out = from->denied.left_out();
    // Those that come meanwhile need not be there.
    return piece.size() < kPieceDenials || denials.size() >= DenialLog::kKept;
}

}  // namespace tidegate::telemetry

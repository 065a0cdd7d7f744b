#include "telemetry/activity.hpp"

#include <algorithm>
#include <iterator>
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

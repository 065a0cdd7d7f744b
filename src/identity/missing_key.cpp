#include "identity/missing_key.hpp"

namespace tidegate::identity {

MissingKey::Step MissingKey::next(const KeyFetches& fetches, Time now) const {
    if (fetches.succeeded >= proof_) return Step::refuse;
    if (fetches.ended >= proof_ || now >= until_) return Step::unavailable;
    // One that is under way may bring the key, too.
    return fetches.is_under_way() || fetches.next < until_ ? Step::wait : Step::unavailable;
}

std::chrono::seconds retry_after(const KeyFetches& fetches, MissingKey::Time now) {
    constexpr std::chrono::seconds kLeast{1};
    // The first fetch may begin at the beginning of time: that is no difference to compute.
    if (fetches.is_under_way() || fetches.next <= now) return kLeast;
    return std::chrono::ceil<std::chrono::seconds>(fetches.next - now);
}

}  // namespace tidegate::identity

#include "identity/user_tiers.hpp"

namespace tidegate::identity {

std::string_view tier_of(const std::optional<std::string_view>& user, const UserTiers& tiers) {
    if (!user || tiers.empty()) return {};
    const auto found = tiers.find(*user);
    return found != tiers.end() ? std::string_view(found->second) : std::string_view{};
}

}  // namespace tidegate::identity

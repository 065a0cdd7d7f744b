// The tiers of users (`identity.users`). Immutable once read.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tidegate::identity {

struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
        return std::hash<std::string_view>{}(name);
    }
};

// `identity.users`: the tier of each user who has one.
using UserTiers = std::unordered_map<std::string, std::string, NameHash, std::equal_to<>>;

// Empty: none. The view goes into `tiers`.
std::string_view tier_of(const std::optional<std::string_view>& user, const UserTiers& tiers);

}  // namespace tidegate::identity

#include "identity/user.hpp"

#include <algorithm>

namespace tidegate::identity {

std::optional<std::string_view> user_of(const Peer& peer, const http::Fields& fields,
                                        const std::vector<UserHeader>& methods) {
    if (!peer.trusted) return std::nullopt;
    for (const UserHeader& method : methods) {
        const std::string_view user = http::single_value(fields, method.name);
        if (!user.empty()) return user;
    }
    return std::nullopt;
}

std::string_view tier_of(const std::optional<std::string_view>& user, const UserTiers& tiers) {
    if (!user || tiers.empty()) return {};
    const auto found = tiers.find(*user);
    return found != tiers.end() ? std::string_view(found->second) : std::string_view{};
}

bool is_identity_field(std::string_view name, const std::vector<UserHeader>& methods) {
    return std::any_of(methods.begin(), methods.end(), [&](const UserHeader& method) {
        return http::equal_as_variable(name, method.name);
    });
}

bool is_identity_field(std::string_view name, const std::vector<UserHeader>& methods,
                       const ClientIpSettings& client_ip) {
    return (client_ip.source == ClientIpSettings::Source::single &&
            http::equal_as_variable(name, client_ip.single_field)) ||
           is_identity_field(name, methods);
}

}  // namespace tidegate::identity

#include "identity/client_list.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate::identity {

namespace {

bool holds(const std::vector<std::string>& sorted, std::string_view name) {
    return std::binary_search(sorted.begin(), sorted.end(), name, std::less<>{});
}

}  // namespace

bool ClientList::lists_user(const ClientIdentity& client) const {
    return client.user && holds(users, *client.user);
}

bool ClientList::lists_tier(const ClientIdentity& client) const {
    return !client.tier.empty() && holds(tiers, client.tier);
}

bool ClientList::includes(const std::optional<IpAddress>& address) const {
    return address && networks.contains(*address);
}

bool ClientList::includes(const ClientIdentity& client) const {
    if (includes(client.address)) return true;
    if (!by_user) return false;
    return (client.authenticated ? authenticated : anonymous) || lists_user(client) ||
           lists_tier(client);
}

std::string ClientList::entry_for(const ClientIdentity& client) const {
    const IpNetwork* const network = client.address ? networks.find(*client.address) : nullptr;
    if (network != nullptr) {
        return network->address.to_string() + "/" + std::to_string(network->prefix);
    }
    if (lists_user(client)) return "user:" + std::string(*client.user);
    if (lists_tier(client)) return "tier:" + std::string(client.tier);
    if (client.authenticated && authenticated) return "authenticated";
    if (!client.authenticated && anonymous) return "anonymous";
    return {};
}

std::string_view tier_of(const std::optional<std::string_view>& user, const UserTiers& tiers) {
    if (!user || tiers.empty()) return {};
    const auto found = tiers.find(*user);
    return found != tiers.end() ? std::string_view(found->second) : std::string_view{};
}

}  // namespace tidegate::identity

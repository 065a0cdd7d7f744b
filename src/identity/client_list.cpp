#include "identity/client_list.hpp"

#include <algorithm>
#include <functional>

namespace tidegate::identity {

bool ClientList::includes(const std::optional<IpAddress>& client,
                          const std::optional<std::string_view>& user) const {
    if (user && std::binary_search(users.begin(), users.end(), *user, std::less<>{})) return true;
    return client && std::any_of(networks.begin(), networks.end(), [&](const IpNetwork& network) {
               return network.contains(*client);
           });
}

}  // namespace tidegate::identity

// Clients that a policy exempts or denies, by network or user name. Pure; immutable once read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.hpp"

namespace tidegate::identity {

struct ClientList {
    std::vector<IpNetwork> networks;
    std::vector<std::string> users;  // in order

    bool empty() const { return networks.empty() && users.empty(); }
    // Whether the address or the user is on the list. An unknown address or user is on no list.
    bool includes(const std::optional<IpAddress>& client,
                  const std::optional<std::string_view>& user) const;
};

}  // namespace tidegate::identity

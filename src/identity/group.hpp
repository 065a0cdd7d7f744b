// Clients that a policy exempts or turns away: by network, or by name. Pure; immutable once read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.hpp"

namespace tidegate::identity {

struct Group {
    std::vector<IpNetwork> networks;
    std::vector<std::string> users;  // in order

    bool empty() const { return networks.empty() && users.empty(); }
    // Whether the address or the user is one of them. Whoever is not known is in no group.
    bool includes(const std::optional<IpAddress>& client,
                  const std::optional<std::string_view>& user) const;
};

}  // namespace tidegate::identity

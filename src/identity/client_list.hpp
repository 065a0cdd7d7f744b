// A ClientList holds the clients that a policy exempts or denies: networks, users, tiers, and
// whether a request has an authenticated user at all. UserTiers holds the tiers of users
// (`identity.users`). Pure; immutable once read.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ip.hpp"
#include "base/text.hpp"

namespace tidegate::identity {

// The client of a request, as far as Tidegate knows it. The views outlive it.
struct ClientIdentity {
    std::optional<IpAddress> address;
    std::optional<std::string_view> user;
    std::string_view tier;  // empty: none
    // A credential that Tidegate or a trusted proxy has checked names the user. A cookie does not:
    // clients can make up cookies.
    bool authenticated = false;
};

struct ClientList {
    IpNetworks networks;
    std::vector<std::string> users;  // in order
    std::vector<std::string> tiers;  // in order
    bool authenticated = false;      // lists clients with ClientIdentity::authenticated
    bool anonymous = false;          // lists all others
    bool by_user = false;            // lists anything but networks

    bool empty() const { return networks.empty() && !by_user; }
    // Whether a network on the list contains the address. An unknown address is in no network.
    bool includes(const std::optional<IpAddress>& address) const;
    // Whether any entry of the list means the client.
    bool includes(const ClientIdentity& client) const;
    // The first such entry as it is written, for people: `10.0.0.0/8`, `user:alice`. Empty: none.
    std::string entry_for(const ClientIdentity& client) const;

  private:
    bool lists_user(const ClientIdentity& client) const;
    bool lists_tier(const ClientIdentity& client) const;
};

// The tiers of users (`identity.users`), by name. Immutable once read.
using UserTiers = std::unordered_map<std::string, std::string, TextHash, std::equal_to<>>;

// Empty: none. The view goes into `tiers`.
std::string_view tier_of(const std::optional<std::string_view>& user, const UserTiers& tiers);

}  // namespace tidegate::identity

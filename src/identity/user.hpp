// Which authenticated user a request speaks for. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "http/field.hpp"
#include "identity/client_ip.hpp"

namespace tidegate::identity {

// `identity.user: - header: {name: x-user-id, from: trusted_proxies}`
struct UserHeader {
    std::string name;  // lower case
};

// The user named by the first method that finds one; absent when none does. A field from a peer
// that is not trusted is not looked at. An empty value, or the field twice, is absent.
std::optional<std::string_view> user_of(const Peer& peer, const http::Fields& fields,
                                        const std::vector<UserHeader>& methods);

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

// Whether a field of this name, ignoring case and with `_` and `-` alike, could pass for one that
// names a user. The proxy removes such fields where they are not believed, from trailers too.
bool is_identity_field(std::string_view name, const std::vector<UserHeader>& methods);

// The same, and for the single-address field that names the client, if there is one.
bool is_identity_field(std::string_view name, const std::vector<UserHeader>& methods,
                       const ClientIpSettings& client_ip);

}  // namespace tidegate::identity

// Finds out which client and which user a request comes from, as far as that takes no waiting.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>

#include "ask/decision.hpp"
#include "ask/ruleset.hpp"
#include "base/ip.hpp"
#include "identity/client_list.hpp"

namespace tidegate::ask {

// Sets decision.client and .authentication. Sets .user and .tier, or a fault, unless needs_proof().
// A preflight needs no user: of it, only the client is found.
void identify(const Ruleset& rules, const Facts& facts, Decision& decision);

// Whether the request has a credential that the authenticator does not know to be valid. Such a
// credential counts as a guess until it is checked; a refused one was a guess.
inline bool needs_proof(const Decision& decision) {
    return decision.authentication->result == identity::Authentication::Result::unchecked ||
           decision.authentication->result == identity::Authentication::Result::refused;
}

// The client as lists of clients see it. Requires a concluded identity. A user by `cookie` is not
// authenticated.
identity::ClientIdentity client_of(const config::Config& config, const Decision& decision);

// Applies decision.authentication: sets .user and .tier, or a fault.
void conclude_identity(const config::Config& config, Decision& decision);

// Forwarding fields of a peer that is not trusted. The engine does not believe them; where the peer
// is a proxy that the configuration forgot, all its clients share the limits of one address.

// Whether the request has X-Forwarded-For or Forwarded, and its peer may not say so.
inline bool ignores_forwarding(const Facts& facts) {
    if (facts.peer.trusted || facts.peer.is_gateway) return false;
    const http::Fields& fields = facts.head.fields;
    return std::any_of(fields.begin(), fields.end(), [](const http::Field& field) {
        return field.id == http::FieldName::x_forwarded_for ||
               field.id == http::FieldName::forwarded;
    });
}

// Logs, once an hour for each network, what to write if the peer is a proxy. Requires
// ignores_forwarding().
void log_ignored_forwarding(const Facts& facts);

// The network of `address` that gets a notice of its own: /24 of IPv4, /64 of IPv6.
IpNetwork noticed_network(const IpAddress& address);

// One notice an hour for each network, in bounded memory.
//
// Any thread. A thread that finds another one here goes on without waiting, and without a notice.
// Time is an argument.
class NetworkNotices {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // While so many networks have had their notice within the hour, no other network gets one.
    static constexpr std::size_t kNetworksMax = 64;
    static constexpr std::chrono::hours kEvery{1};

    // True for the first request of the network of `peer`, and then once an hour. No address: a
    // Unix socket, which counts as a network.
    bool is_due(const std::optional<IpAddress>& peer, Time now);

  private:
    struct Notice {
        std::optional<IpAddress> network;
        Time next;
    };

    std::mutex mutex_;
    std::array<Notice, kNetworksMax> notices_;  // guarded by mutex_
    std::size_t size_ = 0;                      // likewise
};

}  // namespace tidegate::ask

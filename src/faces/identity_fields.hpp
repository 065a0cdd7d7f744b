// The fields that name the user to a gateway's upstream: `forward_as` of `identity`.
#pragma once

#include <string>
#include <string_view>

#include "proxy/exchange.hpp"

namespace tidegate::faces {

// Calls `visit(name, value)` for each field that the configuration names. The value is empty where
// nothing is known.
template <class Visit>
void for_each_identity_field(const proxy::Exchange& exchange, Visit visit) {
    const config::ForwardAs& names = exchange.config().forward_as;
    const ask::Decision& decision = exchange.decision;
    if (!names.user.empty()) visit(names.user, decision.user.value_or(std::string_view()));
    if (!names.tier.empty()) visit(names.tier, decision.tier);
    if (names.client_ip.empty()) return;
    std::string address;
    if (decision.client) decision.client->append_to(address);
    visit(names.client_ip, address);
}

}  // namespace tidegate::faces

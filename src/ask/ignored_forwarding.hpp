// Forwarding fields of a peer that is not trusted. The engine does not believe them; where the peer
// is a proxy that the configuration forgot, all its clients share the limits of one address.
#pragma once

#include <algorithm>

#include "ask/facts.hpp"

namespace tidegate::ask {

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

}  // namespace tidegate::ask

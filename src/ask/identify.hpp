// Finds out which client and which user a request comes from, as far as that takes no waiting.
#pragma once

#include "ask/decision.hpp"
#include "ask/facts.hpp"
#include "ask/ruleset.hpp"

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

}  // namespace tidegate::ask

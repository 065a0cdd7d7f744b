// What an answer says about credentials that are not valid: enough for their owner, nothing that
// helps a guess. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "identity/authenticator.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::ask {

// What is wrong with a token whose signature is right: that it has expired, for example. For all
// other faults only that the credentials are not valid.
std::string_view public_reason(identity::CredentialFault fault);

// Appends a WWW-Authenticate line for each configured method (RFC 9110 section 11.6.1). The line of
// the method that refused the credential has the reason (RFC 6750 section 3).
void append_challenges(const std::vector<identity::UserMethod>& methods,
                       const identity::Authentication& authentication, std::string& out);

}  // namespace tidegate::ask

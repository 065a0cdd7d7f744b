// What a client with credentials that are not valid is told: enough for their owner, nothing for
// who guesses. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "identity/authenticator.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::ask {

// What is wrong, of what a signature or a password has proved to be ours to tell: that a token has
// expired. Of all else that they are not valid, and no more.
std::string_view told_about(identity::CredentialFault fault);

// A WWW-Authenticate line for each way to say who one is (RFC 9110 section 11.6.1), that of the
// method that refused with its reason (RFC 6750 section 3).
void append_challenges(const std::vector<identity::UserMethod>& methods,
                       const identity::Finding& finding, std::string& out);

}  // namespace tidegate::ask

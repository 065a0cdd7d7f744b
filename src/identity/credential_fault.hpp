// Why a credential was not believed. For logs, metrics and `explain`; the answer to the client says
// much less.
#pragma once

#include <cstdint>
#include <string_view>

namespace tidegate::identity {

enum class CredentialFault : std::uint8_t {
    none,
    // of any
    malformed,       // not of the form its scheme has, or longer than allowed
    unsafe_user,     // names a user that is_safe_user() refuses
    unclear_cookie,  // there twice with different values, or of characters that no cookie has
    foreign_space,   // names a user that begins with the namespace of another method
    // of a token
    not_json,            // head or claims are no JSON object, or name something twice
    critical_extension,  // `crit` asks for what Tidegate does not implement
    token_type,          // `typ` says that it was made for another purpose
    algorithm,           // not one of those configured
    unknown_key,         // no key has its `kid`, or none could have signed it
    signature,
    expired,
    not_yet_valid,  // `nbf` or `iat` lie ahead
    time_claim,     // `exp`, `nbf` or `iat` is no number, or there is no `exp`
    issuer,
    audience,
    user_claim,  // the claim that names the user is missing, or no text or number
    // of a key or a password
    unknown_secret,
    wrong_password,
    // of a client's certificate
    certificate_name,  // none of its names fits, or several
};

// `token: expired`. For people; never holds anything of the credential.
std::string_view to_string(CredentialFault fault);

// Whether its sender may be trying secrets. A client whose token is signed by one of our keys and
// has expired guesses nothing; nor does a client whose token names a key that is not there.
bool is_guess(CredentialFault fault);

// Whether only a token that one of our keys signed is refused for that.
bool is_proved_by_signature(CredentialFault fault);

}  // namespace tidegate::identity

// Finds the credentials that a request carries. No function here checks whether they are valid.
// Pure; allocates nothing, but for a cookie's value that has to be decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/described_enum.hpp"
#include "http/field.hpp"
#include "identity/identifier.hpp"

namespace tidegate::identity {

// Why a credential was not believed. For logs, metrics and `explain`; the answer to the client says
// much less.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    CredentialFault, std::uint8_t, none,
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
    signature, expired,
    not_yet_valid,  // `nbf` or `iat` lie ahead
    time_claim,     // `exp`, `nbf` or `iat` is no number, or there is no `exp`
    issuer, audience,
    user_claim,  // the claim that names the user is missing, or no text or number
    // of a key or a password
    unknown_secret, wrong_password,
    // of a client's certificate
    certificate_name)  // none of its names fits, or several

// `token: expired`. For people; never holds anything of the credential.
std::string_view to_string(CredentialFault fault);

// Whether its sender may be trying secrets. A client whose token is signed by one of our keys and
// has expired guesses nothing; nor does a client whose token names a key that is not there.
bool is_guess(CredentialFault fault);

// Returns what an answer says about credentials that are not valid: enough for their owner, nothing
// that helps a guess. It says what is wrong with a token whose signature is right, such as that it
// has expired; for all other faults it says only that the credentials are not valid.
std::string_view public_reason(CredentialFault fault);

// Whether only a token that one of our keys signed is refused for that.
bool is_proved_by_signature(CredentialFault fault);

// The longest token, key or cookie that is read.
inline constexpr std::size_t kSecretBytesMax = 8'192;

struct Credential {
    enum class State : std::uint8_t {
        absent,  // or of another scheme
        present,
        malformed,
        // More than one field where there can be only one: whom the upstream believes is anybody's
        // guess, so the request is refused (400), whatever is done with bad credentials.
        twice,
    };

    State state = State::absent;
    std::string_view text;  // of one that is present; goes into the fields
};

// A token or a key: in `authorization` what follows `Bearer` (RFC 6750 section 2.1), in any other
// field the whole value. `field` in lower case. An empty field is absent.
Credential find_secret(const http::Fields& fields, std::string_view field);

// Finds what follows `Basic` in Authorization (RFC 7617 section 2): base64, not decoded.
Credential find_basic(const http::Fields& fields);

// Fields that Connection names are absent here: the upstream does not get them.

// The value of the cookie of that name, over all Cookie fields (RFC 6265 sections 4.1.1 and 5.4).
// Empty is absent. Malformed: two values of one name, another spelling of the name (PHP takes
// `session.id` for `session_id`; others ignore case), and characters that no cookie-octet is: some
// servers end a value there and some do not, so that one session could be called by many names.
// For the same reason quotes around the value do not count.
Credential find_cookie(const http::Fields& fields, std::string_view name);

// The value of a cookie as limits count it: percent-decoded once, and each `+`, written as `%2B`,
// too, counts as a space. A `%` without two digits stays. PHP, Rack and Express decode so, but for
// the `+`, about which they differ: a client that writes its session in another way keeps its
// count. White space around what comes of it does not count. Returns `value`, or a view of `room`,
// which it fills only if there is a `%` or a `+`.
std::string_view counted_cookie_value(std::string_view value, std::string& room);

// Appends `WWW-Authenticate: SCHEME realm="tidegate", PARAMETER="VALUE"` (RFC 9110 section 11.6.1).
// A secret in a field of its own has no standard scheme: the parameter says which field it is.
// Without a parameter there is none.
void append_challenge(std::string_view scheme, std::string_view parameter, std::string_view value,
                      std::string& out);
// The same of `Bearer`; `detail`: what was wrong with the token (RFC 6750 section 3), or empty.
void append_bearer_challenge(std::string_view detail, std::string& out);

}  // namespace tidegate::identity

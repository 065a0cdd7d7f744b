// What a request carries that may say who its user is, before anybody has checked it. Pure;
// allocates nothing, but for a cookie's value that has to be decoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/described_enum.hpp"
#include "http/field.hpp"
#include "identity/identifier.hpp"
#include "identity/user_methods.hpp"
#include "tls/client_auth.hpp"

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

// Whether only a token that one of our keys signed is refused for that.
bool is_proved_by_signature(CredentialFault fault);

// Of a token, a key or a cookie.
inline constexpr std::size_t kSecretBytesMax = 8'192;
inline constexpr std::size_t kPasswordBytesMax = 1'024;

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

// What follows `Basic` in Authorization (RFC 7617 section 2): base64, not looked at yet.
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

// User and password of Basic credentials. Wiped when it goes.
class BasicLogin {
  public:
    BasicLogin() = default;
    ~BasicLogin();
    BasicLogin(const BasicLogin&) = delete;
    BasicLogin& operator=(const BasicLogin&) = delete;

    // Reads the text that find_basic() found. `none`, or `malformed`: not the one way to write it
    // in base64 (RFC 4648 sections 3.5 and 4), no colon, a control character in the password, too
    // long; or `unsafe_user`. A password need not be UTF-8: a hash tells.
    CredentialFault read(std::string_view base64);

    // After a read() without fault.
    std::string_view user() const { return {bytes_.data(), user_bytes_}; }
    std::string_view password() const { return {bytes_.data() + user_bytes_ + 1, password_bytes_}; }

  private:
    static constexpr std::size_t kBytesMax = kUserBytesMax + 1 + kPasswordBytesMax;

    // base64 comes in groups of three bytes.
    std::array<char, (kBytesMax + 2) / 3 * 3> bytes_;
    std::size_t user_bytes_ = 0;
    std::size_t password_bytes_ = 0;
};

// Which of the names in a client's certificate is its user. Pure.
struct CertificateUser {
    CredentialFault fault = CredentialFault::none;
    std::string_view name;  // goes into the certificate
};

// The only name of the method's kind that has its prefix. No name, or two that differ, is a fault:
// Tidegate cannot tell which one the authority meant. So is a name that the certificate's reader
// left out, as it could have been a second one.
CertificateUser user_of(const CertificateMethod& method, const ClientCertificate& certificate);

// As the configuration has it: `san_uri`.
std::string_view to_string(CertificateMethod::Subject subject);

}  // namespace tidegate::identity

#include "identity/credentials.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "http/field.hpp"
#include "http/query_and_method_override.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::identity {

namespace {

// What a fault says about the client that sent the credential.
enum class Sender : std::uint8_t { unclear, may_guess, has_signature };

struct CredentialFaultTraits {
    std::string_view text;
    Sender sender = Sender::unclear;
    std::string_view public_reason = "The credentials are not valid.";
};

constexpr std::string_view kBadClaim =
    "The token lacks a claim that is needed here, or has a wrong one.";

constexpr EnumTable<CredentialFault, CredentialFaultTraits> kCredentialFaults(
    {{CredentialFault::none, {""}},
     {CredentialFault::malformed, {"credential: malformed", Sender::may_guess}},
     {CredentialFault::unsafe_user, {"credential: unusable user name", Sender::has_signature}},
     {CredentialFault::unclear_cookie, {"cookie: unclear"}},
     {CredentialFault::foreign_space,
      {"credential: user of another method's namespace", Sender::has_signature}},
     {CredentialFault::not_json, {"token: not strict JSON", Sender::may_guess}},
     {CredentialFault::critical_extension, {"token: critical extension", Sender::may_guess}},
     {CredentialFault::token_type, {"token: of another type", Sender::may_guess}},
     {CredentialFault::algorithm, {"token: algorithm not allowed", Sender::may_guess}},
     {CredentialFault::unknown_key, {"token: no such key"}},
     {CredentialFault::signature, {"token: wrong signature", Sender::may_guess}},
     {CredentialFault::expired,
      {"token: expired", Sender::has_signature, "The token has expired."}},
     {CredentialFault::not_yet_valid,
      {"token: not valid yet", Sender::has_signature, "The token is not valid yet."}},
     {CredentialFault::time_claim, {"token: bad time claim", Sender::has_signature, kBadClaim}},
     {CredentialFault::issuer,
      {"token: wrong issuer", Sender::has_signature, "The token is of another issuer."}},
     {CredentialFault::audience,
      {"token: wrong audience", Sender::has_signature, "The token is for another audience."}},
     {CredentialFault::user_claim, {"token: no user", Sender::has_signature, kBadClaim}},
     {CredentialFault::unknown_secret, {"key: unknown", Sender::may_guess}},
     {CredentialFault::wrong_password, {"password: wrong", Sender::may_guess}},
     {CredentialFault::certificate_name, {"certificate: not exactly one name that fits"}}});

}  // namespace

std::string_view to_string(CredentialFault fault) {
    return kCredentialFaults[fault].text;
}

bool is_guess(CredentialFault fault) {
    return kCredentialFaults[fault].sender == Sender::may_guess;
}

bool is_proved_by_signature(CredentialFault fault) {
    return kCredentialFaults[fault].sender == Sender::has_signature;
}

std::string_view public_reason(CredentialFault fault) {
    return kCredentialFaults[fault].public_reason;
}

namespace {

using State = Credential::State;

// Which octets are letters, digits or one of `others`. Tokens are long, and each request has one.
using Octets = std::array<bool, 256>;

constexpr Octets letters_digits_and(std::string_view others) {
    Octets in{};
    for (unsigned c = 0; c < in.size(); ++c) {
        in[c] = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    }
    for (const char c : others) in[static_cast<unsigned char>(c)] = true;
    return in;
}

constexpr Octets kToken = letters_digits_and("!#$%&'*+-.^_`|~");  // RFC 9110 section 5.6.2
constexpr Octets kToken68 = letters_digits_and("-._~+/");         // section 11.2, but for padding
// RFC 6265 section 4.1.1.
constexpr Octets kCookie = letters_digits_and("!#$%&'()*+-./:<=>?@[]^_`{|}~");

// The beginning of `text` that is of such octets.
std::size_t length_of(std::string_view text, const Octets& octets) {
    const auto end = std::find_if_not(
        text.begin(), text.end(), [&](char c) { return octets[static_cast<unsigned char>(c)]; });
    return static_cast<std::size_t>(end - text.begin());
}

// RFC 9110 section 11.2; the same as the b64token of RFC 6750 section 2.1.
bool is_token68(std::string_view text) {
    const std::size_t body = length_of(text, kToken68);
    return body > 0 && text.find_first_not_of('=', body) == text.npos;
}

// The value of the only field of that name. Another spelling that some servers take for the same
// (`X_Api_Key`) makes two of it, or one that must not be read. A field that Connection names does
// not reach the upstream, so it must not identify the user.
bool is_for_this_hop(const http::Field& field) {
    return field.id == http::FieldName::named_by_connection;
}

Credential only_field(const http::Fields& fields, std::string_view name) {
    Credential found;
    for (const http::Field& field : fields) {
        if (is_for_this_hop(field) || !http::equal_as_variable(field.name, name)) continue;
        if (found.state != State::absent || !http::equal_ignoring_case(field.name, name))
            return {State::twice, {}};
        found = {State::present, field.value};
    }
    return found;
}

// What follows `scheme` in Authorization (RFC 9110 section 11.4).
Credential find_authorization(const http::Fields& fields, std::string_view scheme) {
    const Credential field = only_field(fields, "authorization");
    if (field.state != State::present) return field;
    const std::string_view value = field.text;
    const std::size_t scheme_bytes = length_of(value, kToken);
    if (!http::equal_ignoring_case(value.substr(0, scheme_bytes), scheme)) return {};
    const std::string_view rest = value.substr(scheme_bytes);
    const auto start = rest.find_first_not_of(' ');
    // One space at least, no tab: a lenient server would see a credential here.
    if (start == 0 || start == rest.npos) return {State::malformed, {}};
    const std::string_view text = rest.substr(start);
    if (text.size() > kSecretBytesMax || !is_token68(text)) return {State::malformed, {}};
    return {State::present, text};
}

std::string_view without_quotes(std::string_view value) {
    const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
    return quoted ? value.substr(1, value.size() - 2) : value;
}

// Looks for the cookie in one field; `value` is what was found before. False when it is there with
// another value, or under a name that some server takes for its own.
bool find_in(std::string_view cookies, std::string_view name,
             std::optional<std::string_view>& value) {
    while (!cookies.empty()) {
        const std::string_view pair = take_until(cookies, ';');
        const auto equals = pair.find('=');
        const std::string_view written = trimmed(pair.substr(0, equals));
        if (written != name) {
            // Some servers cut off more white space than RFC 6265 knows.
            if (http::could_be_read_as(without_outer_blanks(written), name)) return false;
            continue;
        }
        if (equals == pair.npos) continue;
        const std::string_view here = without_quotes(trimmed(pair.substr(equals + 1)));
        if (value && *value != here) return false;
        value = here;
    }
    return true;
}

}  // namespace

Credential find_secret(const http::Fields& fields, std::string_view field) {
    if (field == "authorization") return find_authorization(fields, "bearer");
    const Credential found = only_field(fields, field);
    if (found.state != State::present) return found;
    if (found.text.empty()) return {};
    return found.text.size() <= kSecretBytesMax ? found : Credential{State::malformed, {}};
}

Credential find_basic(const http::Fields& fields) {
    return find_authorization(fields, "basic");
}

Credential find_cookie(const http::Fields& fields, std::string_view name) {
    std::optional<std::string_view> value;
    for (const http::Field& field : fields) {
        if (is_for_this_hop(field)) continue;
        if (http::equal_ignoring_case(field.name, "cookie") && !find_in(field.value, name, value))
            return {State::malformed, {}};
    }
    if (!value || value->empty()) return {};
    if (value->size() > kSecretBytesMax || length_of(*value, kCookie) != value->size())
        return {State::malformed, {}};
    return {State::present, *value};
}

std::string_view counted_cookie_value(std::string_view value, std::string& room) {
    if (value.find_first_of("%+") == value.npos) return value;
    room.clear();
    for (std::size_t i = 0; i < value.size(); ++i) {
        char c = value[i];
        const int byte =
            c == '%' && i + 2 < value.size() ? hex_byte(value[i + 1], value[i + 2]) : -1;
        if (byte >= 0) {
            c = static_cast<char>(byte);
            i += 2;
        }
        room += c == '+' ? ' ' : c;
    }
    return without_outer_blanks(room);
}

void append_challenge(std::string_view scheme, std::string_view parameter, std::string_view value,
                      std::string& out) {
    out.append("WWW-Authenticate: ").append(scheme).append(" realm=\"tidegate\"");
    if (!parameter.empty()) out.append(", ").append(parameter).append("=\"").append(value) += '"';
    out += "\r\n";
}

void append_bearer_challenge(std::string_view detail, std::string& out) {
    if (detail.empty()) return append_challenge("Bearer", {}, {}, out);
    out += "WWW-Authenticate: Bearer realm=\"tidegate\", error=\"invalid_token\"";
    out.append(", error_description=\"").append(detail) += "\"\r\n";
}

CredentialPlace CredentialPlace::of_secret(const std::string& field) {
    if (field == "authorization") return {In::bearer};
    return {In::field, field};
}

std::string CredentialPlace::field() const {
    switch (in) {
        case In::bearer:
        case In::basic:
            return "authorization";
        case In::field:
            return name;
        case In::cookie:
        case In::certificate:
            break;
    }
    return {};
}

bool CredentialPlace::operator==(const CredentialPlace& other) const {
    if (in != other.in) return false;
    return in == In::cookie ? name == other.name : http::equal_as_variable(name, other.name);
}

std::string CredentialPlace::to_string() const {
    switch (in) {
        case In::bearer:
            return "`Authorization: Bearer`";
        case In::basic:
            return "`Authorization: Basic`";
        case In::field:
            return "the field " + quote(name);
        case In::certificate:
            return "the client's certificate";
        case In::cookie:
            break;
    }
    return "the cookie " + quote(name);
}

// What most methods have.

void IdentityMethod::append_challenge(std::string_view, std::string&) const {}

bool IdentityMethod::is_same_authority(const IdentityMethod&) const {
    return false;
}

std::shared_ptr<const IdentityMethod> IdentityMethod::keeping(std::span<const std::string>,
                                                              std::span<const std::string>) const {
    return nullptr;
}

const std::shared_ptr<const Htpasswd>& IdentityMethod::passwords() const {
    static const std::shared_ptr<const Htpasswd> kNone;
    return kNone;
}

IdentityMethod::Checked IdentityMethod::check(std::string_view, Time, Authentication&) const {
    return {};
}

const std::shared_ptr<KeySource>& IdentityMethod::key_source() const {
    static const std::shared_ptr<KeySource> kNone;
    return kNone;
}

bool IdentityMethod::lacks_key(Authentication&) const {
    return false;
}

}  // namespace tidegate::identity

#include "identity/credentials.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include <openssl/crypto.h>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "http/field.hpp"
#include "http/request_value.hpp"
#include "identity/identifier.hpp"

namespace tidegate::identity {

namespace {

constexpr EnumTexts<CredentialFault> kCredentialFaults(
    {{CredentialFault::none, ""},
     {CredentialFault::malformed, "credential: malformed"},
     {CredentialFault::unsafe_user, "credential: unusable user name"},
     {CredentialFault::unclear_cookie, "cookie: unclear"},
     {CredentialFault::foreign_space, "credential: user of another method's namespace"},
     {CredentialFault::not_json, "token: not strict JSON"},
     {CredentialFault::critical_extension, "token: critical extension"},
     {CredentialFault::token_type, "token: of another type"},
     {CredentialFault::algorithm, "token: algorithm not allowed"},
     {CredentialFault::unknown_key, "token: no such key"},
     {CredentialFault::signature, "token: wrong signature"},
     {CredentialFault::expired, "token: expired"},
     {CredentialFault::not_yet_valid, "token: not valid yet"},
     {CredentialFault::time_claim, "token: bad time claim"},
     {CredentialFault::issuer, "token: wrong issuer"},
     {CredentialFault::audience, "token: wrong audience"},
     {CredentialFault::user_claim, "token: no user"},
     {CredentialFault::unknown_secret, "key: unknown"},
     {CredentialFault::wrong_password, "password: wrong"},
     {CredentialFault::certificate_name, "certificate: not exactly one name that fits"}});

}  // namespace

std::string_view to_string(CredentialFault fault) {
    return kCredentialFaults[fault];
}

bool is_guess(CredentialFault fault) {
    switch (fault) {
        case CredentialFault::malformed:
        case CredentialFault::not_json:
        case CredentialFault::critical_extension:
        case CredentialFault::algorithm:
        case CredentialFault::token_type:
        case CredentialFault::signature:
        case CredentialFault::unknown_secret:
        case CredentialFault::wrong_password:
            return true;
        default:
            return false;
    }
}

bool is_proved_by_signature(CredentialFault fault) {
    switch (fault) {
        case CredentialFault::unsafe_user:
        case CredentialFault::foreign_space:
        case CredentialFault::expired:
        case CredentialFault::not_yet_valid:
        case CredentialFault::time_claim:
        case CredentialFault::issuer:
        case CredentialFault::audience:
        case CredentialFault::user_claim:
            return true;
        default:
            return false;
    }
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
        const std::string_view pair = cookies.substr(0, cookies.find(';'));
        cookies.remove_prefix(std::min(pair.size() + 1, cookies.size()));
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

// The six bits of a digit of base64; -1: it is none.
int bits_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

// RFC 4648 section 4, padded, with the bits left over zero. The number of bytes written; nothing
// when it is not so. Requires room for three bytes for four digits.
std::optional<std::size_t> decode_base64(std::string_view text, char* out) {
    if (text.size() % 4 != 0) return std::nullopt;
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    text.remove_suffix(padding);
    std::uint32_t held = 0;
    int held_bits = 0;
    std::size_t written = 0;
    for (const char c : text) {
        const int bits = bits_of(c);
        if (bits < 0) return std::nullopt;
        held = held << 6 | static_cast<std::uint32_t>(bits);
        held_bits += 6;
        if (held_bits < 8) continue;
        held_bits -= 8;
        out[written++] = static_cast<char>(held >> held_bits & 0xff);
        held &= (1U << held_bits) - 1;
    }
    if (held != 0) return std::nullopt;
    return written;
}

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
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

BasicLogin::~BasicLogin() {
    OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

CredentialFault BasicLogin::read(std::string_view base64) {
    user_bytes_ = password_bytes_ = 0;
    if (base64.size() > bytes_.size() / 3 * 4) return CredentialFault::malformed;
    const auto size = decode_base64(base64, bytes_.data());
    if (!size) return CredentialFault::malformed;
    const std::string_view both(bytes_.data(), *size);
    const auto colon = both.find(':');
    if (colon == both.npos) return CredentialFault::malformed;
    const std::string_view password = both.substr(colon + 1);
    // RFC 7617 section 2: no control characters in either.
    if (password.size() > kPasswordBytesMax || has_control(password))
        return CredentialFault::malformed;
    if (!is_safe_user(both.substr(0, colon))) return CredentialFault::unsafe_user;
    user_bytes_ = colon;
    password_bytes_ = password.size();
    return CredentialFault::none;
}

namespace {

using Subject = CertificateMethod::Subject;

constexpr EnumTexts<Subject> kSubjects({{Subject::common_name, "CN"},
                                        {Subject::uri, "san_uri"},
                                        {Subject::dns, "san_dns"},
                                        {Subject::email, "san_email"},
                                        {Subject::sha256, "sha256"}});

struct NamesOfKind {
    std::span<const std::string> values;
    bool is_incomplete = false;
};

NamesOfKind names_of_kind(Subject subject, const ClientCertificate& certificate) {
    const auto all = [](const ClientCertificate::Names& names) {
        return NamesOfKind{names.values, names.is_incomplete};
    };
    switch (subject) {
        case Subject::common_name:
            return all(certificate.common_names);
        case Subject::uri:
            return all(certificate.uris);
        case Subject::dns:
            return all(certificate.dns_names);
        case Subject::email:
            return all(certificate.emails);
        case Subject::sha256:
            break;
    }
    return {{&certificate.sha256, 1}};
}

// DNS names are the same in either case (RFC 4343); the certificate's are in lower case.
bool has_prefix(const CertificateMethod& method, std::string_view name) {
    if (method.subject != Subject::dns) return name.starts_with(method.prefix);
    return http::equal_ignoring_case(name.substr(0, method.prefix.size()), method.prefix);
}

}  // namespace

CertificateUser user_of(const CertificateMethod& method, const ClientCertificate& certificate) {
    const NamesOfKind names = names_of_kind(method.subject, certificate);
    if (names.is_incomplete) return {CredentialFault::unsafe_user, {}};
    CertificateUser user{CredentialFault::certificate_name, {}};
    for (const std::string& name : names.values) {
        if (!has_prefix(method, name) || name == user.name) continue;
        if (!user.name.empty()) return {CredentialFault::certificate_name, {}};
        user = {CredentialFault::none, name};
    }
    if (!user.name.empty() && !is_safe_user(user.name)) return {CredentialFault::unsafe_user, {}};
    return user;
}

std::string_view to_string(Subject subject) {
    return kSubjects[subject];
}

}  // namespace tidegate::identity

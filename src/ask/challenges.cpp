#include "ask/challenges.hpp"

#include <variant>

namespace tidegate::ask {
namespace {

using identity::CredentialFault;
using identity::UserMethod;

constexpr std::string_view kNotValid = "The credentials are not valid.";
constexpr std::string_view kAuthorization = "authorization";

bool is_bearer(const UserMethod& method) {
    if (const auto* jwt = std::get_if<identity::JwtMethod>(&method.how)) {
        return jwt->cookie.empty() && jwt->field == kAuthorization;
    }
    const auto* key = std::get_if<identity::ApiKeyMethod>(&method.how);
    return key != nullptr && key->field == kAuthorization;
}

void append_challenge(std::string_view scheme, std::string_view parameter, std::string_view value,
                      std::string& out) {
    out.append("WWW-Authenticate: ").append(scheme).append(" realm=\"tidegate\"");
    if (!parameter.empty()) out.append(", ").append(parameter).append("=\"").append(value) += '"';
    out += "\r\n";
}

// A secret in a field of its own has no standard scheme; the challenge says which field it is.
struct Challenge {
    const UserMethod& method;
    std::string_view detail;  // empty: another method refused
    std::string& out;

    void operator()(const identity::JwtMethod& jwt) const {
        if (is_bearer(method)) {
            append_bearer();
        } else if (jwt.cookie.empty()) {
            append_challenge("JWT", "header", jwt.field, out);
        } else {
            append_challenge("JWT", "cookie", jwt.cookie, out);
        }
    }
    void operator()(const identity::ApiKeyMethod& key) const {
        if (is_bearer(method)) {
            append_bearer();
        } else {
            append_challenge("ApiKey", "header", key.field, out);
        }
    }
    void operator()(const identity::BasicMethod&) const {
        append_challenge("Basic", "charset", "UTF-8", out);
    }
    void operator()(const identity::CookieMethod& cookie) const {
        append_challenge("Cookie", "cookie", cookie.name, out);
    }
    // Only trusted peers send this field.
    void operator()(const identity::HeaderMethod&) const {}
    // A client that has no certificate, or another one, can only begin a new connection.
    void operator()(const identity::CertificateMethod&) const {}

    void append_bearer() const {
        out += "WWW-Authenticate: Bearer realm=\"tidegate\"";
        if (!detail.empty()) {
            out.append(", error=\"invalid_token\", error_description=\"").append(detail) += '"';
        }
        out += "\r\n";
    }
};

}  // namespace

std::string_view public_reason(CredentialFault fault) {
    switch (fault) {
        case CredentialFault::expired:
            return "The token has expired.";
        case CredentialFault::not_yet_valid:
            return "The token is not valid yet.";
        case CredentialFault::issuer:
            return "The token is of another issuer.";
        case CredentialFault::audience:
            return "The token is for another audience.";
        case CredentialFault::time_claim:
        case CredentialFault::user_claim:
            return "The token lacks a claim that is needed here, or has a wrong one.";
        default:
            return kNotValid;
    }
}

void append_challenges(const std::vector<UserMethod>& methods,
                       const identity::Authentication& authentication, std::string& out) {
    const std::size_t before = out.size();
    for (std::size_t i = 0; i < methods.size(); ++i) {
        const auto detail =
            i == authentication.method ? public_reason(authentication.fault) : std::string_view{};
        std::visit(Challenge{methods[i], detail, out}, methods[i].how);
    }
    // RFC 9110 section 15.5.2 requires at least one.
    if (out.size() == before) append_challenge("Tidegate", {}, {}, out);
}

}  // namespace tidegate::ask

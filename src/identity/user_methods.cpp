#include "identity/user_methods.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "http/field.hpp"
#include "identity/authenticator.hpp"
#include "identity/client_ip.hpp"
#include "identity/credentials.hpp"
#include "identity/digest.hpp"
#include "identity/identifier.hpp"
#include "tls/client_auth.hpp"

namespace tidegate::identity {

// `cookie`: a cookie that Tidegate does not check; the user is its hash.
CredentialPlace CookieMethod::place() const {
    return {CredentialPlace::In::cookie, name};
}

std::string CookieMethod::to_string() const {
    return "cookie " + name;
}

void CookieMethod::look(const Presented& request, Authentication& found) const {
    const Credential cookie = find_cookie(request.fields, name);
    if (cookie.state == Credential::State::malformed) {
        found.refuse(CredentialFault::unclear_cookie);
    }
    if (cookie.state != Credential::State::present) return;
    // The cookie itself is a secret. Its digest is the same in every process, so that all proxies
    // in front of one store count it as one.
    std::string room;
    const std::string_view value = counted_cookie_value(cookie.text, room);
    if (value.empty()) return;
    const auto hex = hex_of(sha256(value));
    found.name({hex.data(), hex.size()}, {});
}

void CookieMethod::append_challenge(std::string_view, std::string& out) const {
    identity::append_challenge("Cookie", "cookie", name, out);
}

// `header`: a trusted proxy names the user in a field.
CredentialPlace HeaderMethod::place() const {
    return {CredentialPlace::In::field, field};
}

std::string HeaderMethod::to_string() const {
    return "header " + field;
}

// A field from a peer that is not trusted is ignored; a field that is there twice names no user.
void HeaderMethod::look(const Presented& request, Authentication& found) const {
    if (!request.peer.trusted) return;
    const http::Fields& fields = request.fields;
    // A field that Connection names does not reach the upstream, which would see another user.
    const auto stated = [&](std::string_view name) {
        const bool is_named = std::any_of(fields.begin(), fields.end(), [&](const auto& one) {
            return one.id == http::FieldName::named_by_connection &&
                   http::equal_ignoring_case(one.name, name);
        });
        return is_named ? std::string_view{} : http::single_value(fields, name);
    };
    const std::string_view user = stated(field);
    if (user.empty()) return;
    const std::string_view tier = tier_field.empty() ? std::string_view{} : stated(tier_field);
    if (!is_safe_user(user)) {
        found.refuse(CredentialFault::unsafe_user);
    } else {
        found.name(user, is_tier_name(tier) ? tier : std::string_view{});
    }
}

bool HeaderMethod::is_same_authority(const IdentityMethod& other) const {
    // A trusted peer may name the user in any field.
    return &other.traits() == &kTraits;
}

// `client_certificate`: which of the names in a client's certificate is its user.
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

CredentialPlace CertificateMethod::place() const {
    return {CredentialPlace::In::certificate};
}

std::string CertificateMethod::to_string() const {
    return "client_certificate " + std::string(identity::to_string(subject));
}

void CertificateMethod::look(const Presented& request, Authentication& found) const {
    // A gateway's certificate is not its client's.
    if (request.certificate == nullptr || request.peer.is_gateway) return;
    const CertificateUser user = user_of(*this, *request.certificate);
    if (user.fault != CredentialFault::none) {
        found.refuse(user.fault);
    } else {
        found.name(user.name, {});
    }
}

}  // namespace tidegate::identity

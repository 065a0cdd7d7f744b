// `client_certificate`: which of the names in a client's certificate is its user.
#include <span>
#include <string>
#include <string_view>

#include "http/field.hpp"
#include "identity/authenticator.hpp"
#include "identity/client_ip.hpp"
#include "identity/credentials.hpp"
#include "identity/identifier.hpp"
#include "identity/user_methods.hpp"
#include "tls/client_auth.hpp"

namespace tidegate::identity {

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

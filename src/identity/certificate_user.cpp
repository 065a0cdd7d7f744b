#include "identity/certificate_user.hpp"

#include <span>
#include <string>

#include "http/field.hpp"
#include "identity/name_rules.hpp"

namespace tidegate::identity {
namespace {

using Subject = CertificateMethod::Subject;

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
    switch (subject) {
        case Subject::common_name:
            return "CN";
        case Subject::uri:
            return "san_uri";
        case Subject::dns:
            return "san_dns";
        case Subject::email:
            return "san_email";
        case Subject::sha256:
            return "sha256";
    }
    return "";
}

}  // namespace tidegate::identity

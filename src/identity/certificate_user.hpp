// Which of the names in a client's certificate is its user. Pure.
#pragma once

#include <string_view>

#include "identity/credential_fault.hpp"
#include "identity/user_methods.hpp"
#include "tls/client_certificate.hpp"

namespace tidegate::identity {

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

// X-Forwarded-Client-Cert: what Tidegate tells the upstream of the certificate that the client has
// proven, in the format of Envoy. Pure.
#pragma once

#include <string>

#include "tls/client_auth.hpp"

namespace tidegate::proxy {

// Appends the line `X-Forwarded-Client-Cert: Hash=...;Subject="...";URI=...;DNS=...`, with every
// URI and every DNS name in the certificate's order.
//
// The subject is always quoted, other values where they have `,`, `;` or `=`. No value has `"` or
// `\"`, so that readers agree on where it ends, whatever they think of escapes.
void append_client_certificate(const ClientCertificate& certificate, std::string& out);

}  // namespace tidegate::proxy

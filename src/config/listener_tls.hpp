// The parts of a listener's `tls`, each read by a file of its own. They report what is wrong to the
// value's context.
#pragma once

#include <vector>

#include "config/section.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate::config {

// `certificates`, or `certificate`, `key` and `names` of a single one.
std::vector<ServerCertificate> read_server_certificates(Section& tls);
// `client_auth`, `client_ca`, `client_crl` and `client_depth`.
ClientAuthSettings read_client_auth(Section& tls);

}  // namespace tidegate::config

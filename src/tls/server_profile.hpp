// Which versions, ciphers, groups and habits a listener has in TLS. There is no setting for them
// but the oldest version, and which versions of HTTP are spoken over it.
#pragma once

#include <memory>

#include <openssl/types.h>

#include "tls/server_settings.hpp"

namespace tidegate {

struct FreeTlsContext {
    void operator()(SSL_CTX* context) const;
};
using TlsContextPtr = std::unique_ptr<SSL_CTX, FreeTlsContext>;

// Without a certificate, tickets or client authentication. Throws std::bad_alloc when OpenSSL has
// no memory.
TlsContextPtr make_server_context(TlsVersion min_version, HttpVersions http);

}  // namespace tidegate

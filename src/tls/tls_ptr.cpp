#include "tls/tls_ptr.hpp"

#include <openssl/ssl.h>

namespace tidegate {

void FreeTls::operator()(SSL* tls) const {
    SSL_free(tls);
}

void FreeTlsSession::operator()(SSL_SESSION* session) const {
    SSL_SESSION_free(session);
}

}  // namespace tidegate

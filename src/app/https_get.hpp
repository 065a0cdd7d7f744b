// One GET of a URL with keys, over TLS, for what is fetched now and then, off the way of requests.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "config/address.hpp"
#include "net/asio.hpp"

namespace tidegate::app {

struct HttpsBounds {
    // For everything: looking up the name, connecting, the handshake, the whole answer.
    std::chrono::milliseconds patience{5'000};
    std::size_t body_bytes_max = std::size_t{1} << 20;
};

struct HttpsBody {
    std::string text;
    // Of the server's own certificate; none: there was no TLS.
    std::optional<std::chrono::system_clock::time_point> certificate_until;
};

// The body of a 200; or why there is none: a clause for an operator, without the URL and without
// anything the server wrote. Redirects are not followed.
//
// The server must prove that it is `url`'s host by a certificate that goes back to one of the
// authorities of `ca`, as PEM, in TLS 1.2 or later. Empty: to one of the system's (SSL_CERT_FILE
// and SSL_CERT_DIR replace them), which are read anew each time. A URL without TLS is asked on this
// machine only: at the loopback addresses that its host resolves to. Never blocks the loop on a
// socket or a name. Throws std::exception only when the machine has no memory or OpenSSL cannot be
// set up.
Task<Result<HttpsBody, std::string>> https_get(Executor executor, config::HttpsUrl url,
                                               HttpsBounds bounds, std::string accept,
                                               std::string ca = {});

}  // namespace tidegate::app

// How clients speak to the Tidegate of a test: over HTTP/1 or HTTP/2, in the clear or over TLS, as
// TIDEGATE_TRANSPORT says. Tests do not choose it: Tidegate's listener, Socket::connect() and
// RawClient do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <openssl/ssl.h>

#include "certificates.hpp"

namespace tidegate::test {

using SslPtr = std::unique_ptr<SSL, ReleaseOpenSsl>;

// $TIDEGATE_TRANSPORT is `clear`, which is the same as unset, `tls`, `h2c` (HTTP/2 in the clear, by
// prior knowledge) or `h2` (over TLS). These throw when it is anything else.

// `tls` or `h2`.
bool over_tls();
// `h2c` or `h2`.
bool over_http2();
// What upstreams get as the scheme: `http` or `https`.
std::string client_scheme();

// The listener of a Tidegate at `port`, as its configuration has it; what it needs is written into
// `folder`.
std::string listen_yaml(std::uint16_t port, const class TemporaryFolder& folder);
// A client that trusts the authority of that listener, and no other.
SslPtr tls_to_listener();
// The name that a client asks for in its handshake (SNI).
void ask_for_name(SSL* tls, const std::string& name);
// The protocols that a client offers there (ALPN), the first preferred.
void offer_protocols(SSL* tls, const std::vector<std::string>& names);

// While it lives, Socket::connect() speaks TLS with this port, if tests run over TLS, and RawClient
// HTTP/2, if they run over HTTP/2.
class ListenerPort {
  public:
    explicit ListenerPort(std::uint16_t port);
    ~ListenerPort();
    ListenerPort(const ListenerPort&) = delete;
    ListenerPort& operator=(const ListenerPort&) = delete;

    static bool speaks_tls(std::uint16_t port);
    static bool speaks_http2(std::uint16_t port);

  private:
    std::uint16_t port_;
};

// A test case that is not run over some transports, and why.
struct NotRun {
    // doctest asks for it.
    template <class TestOrSuite>
    void fill(TestOrSuite& tests) const {
        if (!is_so) return;
        tests.m_skip = true;
        tests.m_description = reason;
    }

    bool is_so;
    const char* reason;
};

// `TEST_CASE("..." * only_in_the_clear("why"))` is not run over TLS.
inline NotRun only_in_the_clear(const char* why) {
    return {over_tls(), why};
}
// The same for HTTP/2, which cannot express the case.
inline NotRun only_over_http1(const char* why) {
    return {over_http2(), why};
}

}  // namespace tidegate::test

// A Tidegate whose listener speaks TLS as a test wants it, and clients that choose how they do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "integration/client.hpp"
#include "integration/issued.hpp"
#include "integration/tidegate.hpp"

namespace tidegate::test {

struct ReleaseSession {
    void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
using SessionPtr = std::unique_ptr<SSL_SESSION, ReleaseSession>;

// How a client speaks. It trusts the authority of its TlsWorld.
struct Speaking {
    std::string name = "localhost";  // asked for (SNI); empty: none
    int oldest = TLS1_2_VERSION;
    int newest = TLS1_3_VERSION;
    std::string ciphers{};     // of TLS 1.2, as OpenSSL lists them; empty: its own
    std::string signatures{};  // the same
    const Certificate* own = nullptr;
    const SessionPtr* session = nullptr;  // to go on with
    std::string first{};                  // sent in the clear before anything else
    std::string from = "127.0.0.1";
    std::vector<std::string> protocols{};  // offered (ALPN)
};

// Certificates of one authority, in files that configurations name, and clients.
class TlsWorld {
  public:
    TlsWorld() = default;

    // Writes NAME.pem and NAME.key, and returns them as an item of `certificates`; `more` goes into
    // it.
    std::string keep(const std::string& name, const Certificate& certificate,
                     const std::string& more = "") const;
    // The same with a new certificate of that name, which is also for `localhost`.
    std::string keep(const std::string& name) const;
    // Writes a file, and returns its path in quotes.
    std::string write(const std::string& name, const std::string& text) const;
    Certificate issue(const std::string& common_name, const std::string& names = "") const;
    const Authority& authority() const { return authority_; }

    // A client that has tried to shake hands; where it has failed, nothing is received any more.
    Socket connect(std::uint16_t port, const Speaking& how = {}) const;
    RawClient client(std::uint16_t port, const Speaking& how = {}) const {
        return RawClient(connect(port, how));
    }
    // SSL of a client that has not begun to.
    SslPtr make_client(const Speaking& how) const;

  private:
    Authority authority_;
    TemporaryFolder folder_;
};

// A Tidegate with one listener.
class TlsProxy {
  public:
    // `tls` is the inside of the listener's `tls: {...}`, `more` the rest of the configuration;
    // `listen_more` goes into the listener, such as `, proxy_protocol: on`.
    TlsProxy(const TlsWorld& world, const std::string& tls, const std::string& more,
             const std::string& listen_more = "");

    std::uint16_t port() const { return port_; }
    const Tidegate& tidegate() const { return *tidegate_; }
    Tidegate& tidegate() { return *tidegate_; }

    RawClient client(const Speaking& how = {}) const { return world_.client(port_, how); }
    Message get(const Speaking& how = {}, const std::string& path = "/") const;
    // The name of the certificate that it shows; empty: it shows none.
    std::string shown(const Speaking& how = {}) const;
    // What TLS says when it refuses a client; empty when the client is served.
    std::string refusal(const Speaking& how = {}) const;

    // Writes the configuration anew and reloads it; whether it was taken.
    bool reload(const std::string& tls, const std::string& more) const;

  private:
    std::string yaml(const std::string& tls, const std::string& more) const;

    const TlsWorld& world_;
    std::uint16_t port_;
    std::string listen_more_;
    std::optional<Tidegate> tidegate_;
};

// `certificates: [ITEMS]`
std::string certificates(const std::vector<std::string>& items);

// The session that the client may resume later: a copy, which stays usable. Once an answer was
// read.
SessionPtr session_of(const RawClient& client);
bool was_resumed(const RawClient& client);

}  // namespace tidegate::test

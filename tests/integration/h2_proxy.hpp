// A Tidegate that speaks HTTP/2 on two listeners, whatever $TIDEGATE_TRANSPORT says: in the clear,
// beside HTTP/1, and over TLS.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "integration/h2_client.hpp"
#include "integration/tls_world.hpp"

namespace tidegate::test {

// What goes into the two listeners.
struct H2Listeners {
    std::string clear = ", http: [h2, http1]";
    std::string secure{};  // the default speaks both
    std::string tls{};     // behind the certificates, such as `, client_auth: require`
};

class H2Proxy {
  public:
    // `rest` is the configuration without its listeners.
    explicit H2Proxy(const std::string& rest, const H2Listeners& listeners = {})
        : clear_port_(free_port()),
          secure_port_(free_port()),
          tidegate_("listen: [{address: \"127.0.0.1:" + std::to_string(clear_port_) + "\"" +
                    listeners.clear + "}, {address: \"127.0.0.1:" + std::to_string(secure_port_) +
                    "\", tls: {" + certificates({world_.keep("own")}) + listeners.tls + "}" +
                    listeners.secure + "}]\n" + rest) {}

    std::uint16_t port() const { return clear_port_; }
    std::uint16_t secure_port() const { return secure_port_; }
    Tidegate& tidegate() { return tidegate_; }
    const TlsWorld& world() const { return world_; }

    // By prior knowledge.
    H2Client client(const H2Options& options = {}, const std::string& from = "127.0.0.1") const {
        return H2Client(clear_port_, options, from);
    }
    // By ALPN.
    H2Client secure_client(Speaking how = {}) const {
        how.protocols = {"h2"};
        return H2Client(world_.connect(secure_port_, how));
    }
    // A client of the secure listener that offers `protocols`; in HTTP/1.
    RawClient offering(std::vector<std::string> protocols) const {
        Speaking how;
        how.protocols = std::move(protocols);
        return world_.client(secure_port_, how);
    }

  private:
    TlsWorld world_;
    std::uint16_t clear_port_;
    std::uint16_t secure_port_;
    Tidegate tidegate_;
};

}  // namespace tidegate::test

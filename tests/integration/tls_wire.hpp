// A client of a listener that speaks TLS whose bytes the test carries itself: to send half of them,
// others, or the same again.
#pragma once

#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "integration/tls_layer.hpp"
#include "integration/tls_world.hpp"

namespace tidegate::test {

class Wire {
  public:
    Wire(const TlsWorld& world, std::uint16_t port, const Speaking& how = {})
        : socket(Socket::connect(port)), tls(world.make_client(how)) {}

    // What is to be sent next, of the handshake or behind it.
    std::string next() {
        tls.shake();
        return tls.sealed();
    }
    // Takes in what has come; false at the end.
    bool hear() {
        const std::string bytes = socket.receive();
        tls.take(bytes);
        return !bytes.empty();
    }
    // Until the handshake is over, one way or the other.
    bool shake() {
        do {
            socket.send(next());
        } while (tls.state() == TlsLayer::State::shaking && hear());
        return tls.state() == TlsLayer::State::open;
    }
    void ask(const std::string& plain) { socket.send(tls.sealed(plain)); }
    // What arrives over TLS; empty at the end, and where TLS has failed.
    std::string heard() {
        std::string plain = tls.read();
        while (plain.empty() && tls.state() == TlsLayer::State::open && hear()) {
            plain = tls.read();
        }
        return plain;
    }
    bool is_served() {
        ask(get_request("/"));
        return heard().find(" 200 ") != std::string::npos;
    }
    // A message of TLS 1.3 that only asks the other side to count with a new key.
    void update_key() {
        REQUIRE(SSL_key_update(tls.native(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
        REQUIRE(SSL_do_handshake(tls.native()) == 1);
        socket.send(tls.sealed());
    }

    Socket socket;
    TlsLayer tls;
};

// A client's first message.
inline std::string hello_of(const TlsWorld& world) {
    TlsLayer tls(world.make_client({}));
    tls.shake();
    return tls.sealed();
}

}  // namespace tidegate::test

// The other side of a TLS connection whose bytes a test carries itself, in any portions.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>
#include <openssl/ssl.h>

#include "certificates.hpp"

namespace tidegate::test {

inline constexpr int kSmallSocket = 4'096;

// Two ends of a stream, neither of which waits. The caller closes the ends that it takes.
struct StreamPair {
    explicit StreamPair(bool is_small = false) {
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
                0);
        if (!is_small) return;
        for (const int end : ends) {
            ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kSmallSocket, sizeof kSmallSocket);
        }
    }
    std::array<int, 2> ends{-1, -1};
};

// OpenSSL between two memories, so that nothing is sent but by the test. `wire` is the end of the
// stream whose other end the unit under test has.
class TlsPeer {
  public:
    TlsPeer(SSL_CTX* context, bool is_server, int wire) : tls_(SSL_new(context)), wire_(wire) {
        SSL_set_bio(tls_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        if (is_server) {
            SSL_set_accept_state(tls_.get());
        } else {
            SSL_set_connect_state(tls_.get());
        }
    }
    ~TlsPeer() { hang_up(); }
    TlsPeer(const TlsPeer&) = delete;
    TlsPeer& operator=(const TlsPeer&) = delete;

    // Takes what has come off the wire, and goes on with the handshake.
    void receive() {
        std::array<char, 65'536> bytes{};
        ssize_t size = 0;
        while ((size = ::recv(wire_, bytes.data(), bytes.size(), 0)) > 0) {
            BIO_write(SSL_get_rbio(tls_.get()), bytes.data(), static_cast<int>(size));
        }
        if (SSL_is_init_finished(tls_.get()) == 0) SSL_do_handshake(tls_.get());
    }
    // What it wants to send.
    std::string to_send() {
        std::string bytes(BIO_ctrl_pending(SSL_get_wbio(tls_.get())), '\0');
        if (!bytes.empty()) {
            BIO_read(SSL_get_wbio(tls_.get()), bytes.data(), static_cast<int>(bytes.size()));
        }
        return bytes;
    }
    void put(std::string_view bytes) const {
        REQUIRE(::send(wire_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
    }
    void flush() { put(to_send()); }

    // One record of at most 16 KiB, not yet on the wire.
    void write(std::string_view plain) {
        REQUIRE(SSL_write(tls_.get(), plain.data(), static_cast<int>(plain.size())) ==
                static_cast<int>(plain.size()));
    }
    void say(std::string_view plain) {
        write(plain);
        flush();
    }
    // All that can be read now.
    std::string heard() {
        receive();
        std::string all;
        std::array<char, 16'384> bytes{};
        int size = 0;
        while ((size = SSL_read(tls_.get(), bytes.data(), bytes.size())) > 0) {
            all.append(bytes.data(), static_cast<std::size_t>(size));
        }
        return all;
    }
    bool was_told_the_end() const {
        return (SSL_get_shutdown(tls_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
    }
    void say_end() {
        SSL_shutdown(tls_.get());
        flush();
    }
    void update_key() {
        REQUIRE(SSL_key_update(tls_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
        REQUIRE(SSL_do_handshake(tls_.get()) == 1);
    }
    void hang_up() {
        if (wire_ >= 0) ::close(std::exchange(wire_, -1));
    }
    SSL* native() const { return tls_.get(); }
    int wire() const { return wire_; }

  private:
    std::unique_ptr<SSL, ReleaseOpenSsl> tls_;
    int wire_;
};

// The context of a server with `own`.
inline std::unique_ptr<SSL_CTX, ReleaseOpenSsl> server_context(const Certificate& own) {
    std::unique_ptr<SSL_CTX, ReleaseOpenSsl> context(SSL_CTX_new(TLS_server_method()));
    SSL_CTX_use_certificate(context.get(), own.certificate.get());
    SSL_CTX_use_PrivateKey(context.get(), own.key.get());
    return context;
}

}  // namespace tidegate::test

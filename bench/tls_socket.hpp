// What the clients here share: sockets, OpenSSL's objects, faults.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <openssl/ssl.h>

namespace bench {

struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* tls) const { SSL_free(tls); }
    void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
using ContextPtr = std::unique_ptr<SSL_CTX, Free>;
using TlsPtr = std::unique_ptr<SSL, Free>;
using SessionPtr = std::unique_ptr<SSL_SESSION, Free>;

// Throw the error of errno, or of OpenSSL.
[[noreturn]] void fail(const std::string& what);
[[noreturn]] void fail_tls(const std::string& what);

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor();
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    int get() const { return fd_; }

  private:
    int fd_;
};

// A blocking socket that waits ten seconds for each byte. `address` is an IPv4 address.
Descriptor connect_to(const std::string& address, std::uint16_t port);

// A client that keeps no buffers and verifies no certificate but for the handshake's signature.
ContextPtr make_client_context(int version, const std::string& groups);

// Shakes hands on a socket, with the session of an earlier connection if there is one.
TlsPtr shake_hands(SSL_CTX* context, int fd, const std::string& name,
                   SSL_SESSION* session = nullptr);

}  // namespace bench

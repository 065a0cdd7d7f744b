#include "tls_socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

#include <openssl/err.h>

namespace bench {
namespace {

constexpr int kPatienceSeconds = 10;  // for each byte

}  // namespace

void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

void fail_tls(const std::string& what) {
    const unsigned long error = ERR_peek_error();
    const char* const reason = error == 0 ? nullptr : ERR_reason_error_string(error);
    throw std::runtime_error(what + ": " + (reason != nullptr ? reason : "the connection ended"));
}

Descriptor::~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
}

Descriptor connect_to(const std::string& address, std::uint16_t port) {
    Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (made.get() < 0) fail("socket");
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(port);
    if (::inet_pton(AF_INET, address.c_str(), &peer.sin_addr) != 1) {
        throw std::runtime_error(address + " is not an IPv4 address");
    }
    const int on = 1;
    ::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const timeval patience{kPatienceSeconds, 0};
    ::setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof peer) != 0) {
        fail("connect");
    }
    return made;
}

ContextPtr make_client_context(int version, const std::string& groups) {
    ContextPtr made(SSL_CTX_new(TLS_client_method()));
    SSL_CTX* const context = made.get();
    if (context == nullptr) throw std::bad_alloc();
    SSL_CTX_set_min_proto_version(context, version);
    SSL_CTX_set_max_proto_version(context, version);
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    if (SSL_CTX_set1_groups_list(context, groups.c_str()) != 1) fail_tls("groups");
    return made;
}

TlsPtr shake_hands(SSL_CTX* context, int fd, const std::string& name, SSL_SESSION* session) {
    TlsPtr made(SSL_new(context));
    SSL* const tls = made.get();
    if (tls == nullptr) throw std::bad_alloc();
    ERR_clear_error();
    SSL_set_fd(tls, fd);
    // Of the macro, which casts away const.
    SSL_ctrl(tls, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(name.c_str()));
    if (session != nullptr) SSL_set_session(tls, session);
    if (SSL_connect(tls) != 1) fail_tls("handshake");
    return made;
}

}  // namespace bench

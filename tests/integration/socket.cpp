#include "integration/socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "integration/tls_layer.hpp"

namespace tidegate::test {
namespace {

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
}

sockaddr_in address_of(const std::string& ip, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (inet_pton(AF_INET, ip.c_str(), &address.sin_addr) != 1) fail("not an address: " + ip);
    return address;
}

// The socket interface takes every family through one type.
const sockaddr* generic(const sockaddr_in& address) {
    return reinterpret_cast<const sockaddr*>(&address);
}

Socket new_socket() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket");
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return Socket(fd);
}

}  // namespace

Socket::Socket() = default;

Socket::Socket(int fd) : fd_(fd) {}

Socket::~Socket() {
    close();
}

Socket::Socket(Socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      was_reset_(other.was_reset_),
      was_truncated_(other.was_truncated_),
      tls_(std::move(other.tls_)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
    if (this != &other) {
        close();
        fd_ = std::exchange(other.fd_, -1);
        was_reset_ = other.was_reset_;
        was_truncated_ = other.was_truncated_;
        tls_ = std::move(other.tls_);
    }
    return *this;
}

Socket Socket::connect(std::uint16_t port, const std::string& from) {
    auto socket = try_connect(port, from);
    if (!socket) throw std::runtime_error("nobody listens on port " + std::to_string(port));
    if (ListenerPort::speaks_tls(port)) socket->begin_tls(tls_to_listener());
    return std::move(*socket);
}

std::optional<Socket> Socket::try_connect(std::uint16_t port, const std::string& from) {
    Socket socket = new_socket();
    const auto source = address_of(from, 0);
    if (::bind(socket.fd_, generic(source), sizeof source) != 0) fail("bind to " + from);
    const auto target = address_of("127.0.0.1", port);
    if (::connect(socket.fd_, generic(target), sizeof target) != 0) {
        if (errno != ECONNREFUSED) fail("connect to port " + std::to_string(port));
        return std::nullopt;
    }
    return socket;
}

Socket Socket::listen(std::uint16_t port, const std::string& on) {
    Socket socket = new_socket();
    const auto address = address_of(on, port);
    if (::bind(socket.fd_, generic(address), sizeof address) != 0) fail("bind");
    if (::listen(socket.fd_, 128) != 0) fail("listen");
    return socket;
}

std::optional<Socket> Socket::accept(milliseconds patience) const {
    if (!wait(POLLIN, Clock::now() + patience)) return std::nullopt;
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return std::nullopt;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return Socket(fd);
}

std::uint16_t Socket::port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) fail("getsockname");
    return ntohs(address.sin_port);
}

bool Socket::begin_tls(SslPtr tls) {
    tls_ = std::make_unique<TlsLayer>(std::move(tls));
    const auto deadline = Clock::now() + kPatience;
    for (;;) {
        const auto state = tls_->shake();
        {
            const auto sending = tls_->begin_sending();
            send_raw(tls_->sealed());
        }
        if (state == TlsLayer::State::open) return true;
        was_truncated_ = true;
        if (state == TlsLayer::State::failed) break;
        const auto bytes = receive_raw(deadline);
        if (bytes.empty()) return false;
        was_truncated_ = false;
        tls_->take(bytes);
    }
    // A client that does not accept the certificate is a fault of the test, not a choice of the
    // peer.
    if (SSL_get_verify_mode(tls_->native()) != SSL_VERIFY_NONE &&
        SSL_get_verify_result(tls_->native()) != X509_V_OK) {
        throw std::runtime_error("the handshake has failed: " + tls_->fault());
    }
    return false;
}

SSL* Socket::tls() const {
    return tls_ ? tls_->native() : nullptr;
}

std::string Socket::fault() const {
    return tls_ ? tls_->fault() : "";
}

bool Socket::send(std::string_view bytes) const {
    if (!tls_) return send_raw(bytes);
    // This large, so that few calls are made, and little is held.
    constexpr std::size_t kPiece = 262'144;
    const auto sending = tls_->begin_sending();
    while (!bytes.empty()) {
        const auto state = tls_->state();
        if (state == TlsLayer::State::shaking || state == TlsLayer::State::failed) return false;
        if (!send_raw(tls_->sealed(bytes.substr(0, kPiece)))) return false;
        bytes.remove_prefix(std::min(kPiece, bytes.size()));
    }
    return true;
}

std::string Socket::receive(Clock::time_point deadline) {
    if (!tls_) return receive_raw(deadline);
    while (!was_truncated_) {
        auto plain = tls_->read();
        if (tls_->has_to_send()) {
            const auto sending = tls_->begin_sending();
            send_raw(tls_->sealed());
        }
        if (!plain.empty() || tls_->state() == TlsLayer::State::ended) return plain;
        if (tls_->state() != TlsLayer::State::open) break;
        const auto bytes = receive_raw(deadline);
        if (bytes.empty()) break;
        tls_->take(bytes);
    }
    was_truncated_ = true;
    return {};
}

bool Socket::send_raw(std::string_view bytes) const {
    auto deadline = Clock::now() + kPatience;
    while (!bytes.empty()) {
        const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
            deadline = Clock::now() + kPatience;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return false;
        } else if (errno != EAGAIN && errno != EINTR) {
            fail("send");
        } else if (!wait(POLLOUT, deadline)) {
            throw std::runtime_error("the peer does not read what is sent to it");
        }
    }
    return true;
}

std::string Socket::receive_raw(Clock::time_point deadline) {
    std::array<char, 65536> buffer;
    for (;;) {
        if (!wait(POLLIN, deadline)) throw std::runtime_error("nothing arrived in time");
        const auto got = ::recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (got >= 0) return {buffer.data(), static_cast<std::size_t>(got)};
        if (errno == ECONNRESET) {
            was_reset_ = true;
            return {};
        }
        if (errno != EAGAIN && errno != EINTR) fail("recv");
    }
}

void Socket::finish_sending() const {
    if (tls_) {
        const auto sending = tls_->begin_sending();
        send_raw(tls_->ending());
        return;
    }
    ::shutdown(fd_, SHUT_WR);
}

void Socket::shutdown() const {
    ::shutdown(fd_, SHUT_RDWR);
}

void Socket::forget_soon() const {
    const int seconds = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_LINGER2, &seconds, sizeof seconds);
}

void Socket::reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
}

void Socket::close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

bool Socket::wait(short events, Clock::time_point deadline) const {
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
        if (left < 0) return false;
        pollfd waiting{.fd = fd_, .events = events, .revents = 0};
        const int ready = ::poll(&waiting, 1, static_cast<int>(left));
        if (ready > 0) return true;
        if (ready == 0) return false;
        if (errno != EINTR) fail("poll");
    }
}

}  // namespace tidegate::test

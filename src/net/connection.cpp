#include "net/connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tidegate {

namespace {

bool is_would_block(int error) {
    return error == EAGAIN || error == EWOULDBLOCK;
}

}  // namespace

Connection::Connection(Readiness& readiness, int descriptor)
    : readiness_(readiness), descriptor_(descriptor) {
    if (descriptor_ < 0 || !readiness_.add(descriptor_, *this)) close();
}

Connection::~Connection() {
    close();
}

IoResult Connection::read_some(std::span<char> into) {
    ssize_t bytes = 0;
    do {
        bytes = ::recv(descriptor_, into.data(), into.size(), 0);
    } while (bytes < 0 && errno == EINTR);
    if (bytes > 0) {
        // Less than there was room for is all there was: what comes later is told anew, except an
        // end that was told together with it.
        if (static_cast<std::size_t>(bytes) < into.size()) readable_ = hung_up_;
        return {IoStatus::ok, static_cast<std::size_t>(bytes)};
    }
    if (bytes == 0) {
        hung_up_ = ended_ = true;
        return {IoStatus::end};
    }
    if (!is_would_block(errno)) {
        hung_up_ = broken_ = true;
        return {IoStatus::failed};
    }
    readable_ = false;
    return {IoStatus::would_block};
}

IoResult Connection::write_some(std::span<const iovec> parts) {
    ssize_t bytes = 0;
    do {
        if (parts.size() == 1) {
            bytes = ::send(descriptor_, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL);
        } else {
            msghdr message{};
            message.msg_iov = const_cast<iovec*>(parts.data());
            message.msg_iovlen = parts.size();
            bytes = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
        }
    } while (bytes < 0 && errno == EINTR);
    if (bytes >= 0) return {IoStatus::ok, static_cast<std::size_t>(bytes)};
    if (!is_would_block(errno)) return {IoStatus::failed};
    writable_ = false;
    return {IoStatus::would_block};
}

void Connection::on_events(std::uint32_t events) {
    const ConnectionPtr self(this);
    constexpr std::uint32_t kEnd = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    if ((events & kEnd) != 0) hung_up_ = true;
    // After an end, the kernel tells of a reset by this event alone: reading goes on to find the
    // end.
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) broken_ = true;
    if ((events & (EPOLLIN | kEnd)) != 0) {
        readable_ = true;
        if (Wakeup* woken = std::exchange(read_sleeper_, nullptr)) woken->wake_now();
    }
    if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
        writable_ = true;
        if (Wakeup* woken = std::exchange(write_sleeper_, nullptr)) woken->wake_now();
    }
}

int Connection::connect_error() const {
    int error = 0;
    socklen_t size = sizeof error;
    return ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// Other sockets than those of TCP know of no such thing, and need it not: their ends are told.
void Connection::probe_peer() {
    constexpr int kOn = 1;
    constexpr int kSeconds = 10;  // of silence before a question, and between two
    constexpr int kQuestions = 6;
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPIDLE, &kSeconds, sizeof kSeconds);
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPINTVL, &kSeconds, sizeof kSeconds);
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPCNT, &kQuestions, sizeof kQuestions);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
}

void Connection::shutdown_send() {
    ::shutdown(descriptor_, SHUT_WR);
}

void Connection::close() {
    read_sleeper_ = write_sleeper_ = nullptr;
    readable_ = writable_ = true;
    hung_up_ = broken_ = true;
    if (descriptor_ < 0) return;
    readiness_.remove(*this);
    ::close(std::exchange(descriptor_, -1));
}

void Connection::reset() {
    const linger drop{1, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
    close();
}

}  // namespace tidegate

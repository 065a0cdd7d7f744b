#include "net/connection.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>

namespace tidegate {

namespace {

// After so many turns, the other work of the loop runs: timers, new connections, answers of Redis.
constexpr int kTurnsInARow = 4;

int new_epoll() {
    const int descriptor = ::epoll_create1(EPOLL_CLOEXEC);
    if (descriptor < 0) throw std::system_error(errno, std::system_category(), "epoll_create1");
    return descriptor;
}

constexpr std::uint16_t kEnd = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
constexpr std::uint16_t kReadEvents = EPOLLIN | kEnd;
constexpr std::uint16_t kWriteEvents = EPOLLOUT | EPOLLHUP | EPOLLERR;

bool is_would_block(int error) {
    return error == EAGAIN || error == EWOULDBLOCK;
}

// The kernel does not splice this, or a seccomp filter forbids it.
bool is_refused(int error) {
    return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == EPERM ||
           error == EACCES;
}

}  // namespace

Readiness::Readiness(asio::io_context& io)
    : turn_(Turn::of(io.get_executor())), epoll_(io.get_executor(), new_epoll()) {
    watch();
    turn_.set_source(this);
}

Readiness::~Readiness() {
    turn_.set_source(nullptr);
}

bool Readiness::add(int descriptor, Connection& connection) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = &connection;
    return ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

// Closing takes the descriptor out of the kernel's set; events that were fetched before are dropped
// here.
void Readiness::remove(const Connection& connection) {
    for (std::size_t i = next_; i < count_; ++i) {
        if (events_[i].data.ptr == &connection) events_[i].data.ptr = nullptr;
    }
}

void Readiness::release(int descriptor, const Connection& connection) {
    ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_DEL, descriptor, nullptr);
    remove(connection);
}

std::uint32_t Readiness::undelivered(const Connection& connection) const {
    for (std::size_t i = next_; i < count_; ++i) {
        if (events_[i].data.ptr == &connection) return events_[i].events;
    }
    return 0;
}

void Readiness::stop() {
    turn_.set_source(nullptr);
    error_code ignored;
    epoll_.close(ignored);
}

void Readiness::watch() {
    epoll_.async_wait(decltype(epoll_)::wait_read, [this](const error_code& ec) {
        if (ec) return;
        // Under load, when a turn brings several at once, there is news again by its end. To ask
        // for it here is one system call; by way of the loop it would be three.
        int turns = 0;
        do {
            turn_.run([] {});
        } while (count_ > 1 && ++turns < kTurnsInARow && epoll_.is_open());
        // Last: the turn's output is on its way before the kernel is asked again.
        if (epoll_.is_open()) watch();
    });
}

void Readiness::deliver() noexcept {
    const int fetched =
        ::epoll_wait(epoll_.native_handle(), events_.data(), static_cast<int>(events_.size()), 0);
    next_ = 0;
    count_ = static_cast<std::size_t>(std::max(fetched, 0));
    while (next_ < count_) {
        const epoll_event event = events_[next_++];
        if (event.data.ptr == nullptr) continue;
        static_cast<Connection*>(event.data.ptr)->on_events(event.events);
    }
}

bool poll_for(asio::io_context& io, std::chrono::microseconds patience) {
    const SteadyTime end = steady_now() + patience;
    do {
        if (io.poll() > 0) return true;
        if (io.stopped()) return false;
        std::this_thread::yield();
    } while (steady_now() < end);
    return false;
}

Connection::Connection(Readiness& readiness, Descriptor&& descriptor) noexcept
    : readiness_(readiness),
      descriptor_(descriptor.release()),
      read_events_(kReadEvents),
      write_events_(kWriteEvents) {
    if (descriptor_ < 0 || !readiness_.add(descriptor_, *this)) close();
}

Connection::~Connection() {
    close();
}

IoResult Connection::read_some(std::span<char> into) {
    if (tls_) [[unlikely]]
        return read_over_tls(into);
    const IoResult read = receive(into, 0);
    // Less than there was room for is all there was: epoll reports later bytes, except an end that
    // was delivered together with it.
    if (read.status == IoStatus::ok && read.bytes < into.size()) readable_ = hung_up_;
    return read;
}

IoResult Connection::peek_some(std::span<char> into) {
    return receive(into, MSG_PEEK);
}

// Reads in the clear.
IoResult Connection::receive(std::span<char> into, int flags) {
    ssize_t bytes = 0;
    do {
        bytes = ::recv(descriptor_, into.data(), into.size(), flags);
    } while (bytes < 0 && errno == EINTR);
    return note_received(bytes);
}

// What a system call to read has returned.
IoResult Connection::note_received(ssize_t bytes) {
    if (bytes > 0) return {IoStatus::ok, static_cast<std::size_t>(bytes)};
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
    if (tls_) [[unlikely]]
        return write_over_tls(parts);
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
    return note_sent(bytes);
}

// What a system call to write has returned.
IoResult Connection::note_sent(ssize_t bytes) {
    if (bytes >= 0) return {IoStatus::ok, static_cast<std::size_t>(bytes)};
    if (!is_would_block(errno)) return {IoStatus::failed};
    writable_ = false;
    return {IoStatus::would_block};
}

// A splice that the system refuses has moved nothing, and is no fault of the connection.
IoResult Connection::splice_into(int pipe, std::size_t bytes_max) {
    ssize_t bytes = 0;
    do {
        bytes = ::splice(descriptor_, nullptr, pipe, nullptr, bytes_max, SPLICE_F_NONBLOCK);
    } while (bytes < 0 && errno == EINTR);
    if (bytes < 0 && is_refused(errno)) return {IoStatus::ok};
    return note_received(bytes);
}

// splice() has no MSG_NOSIGNAL: the program ignores SIGPIPE.
IoResult Connection::splice_from(int pipe, std::size_t bytes) {
    ssize_t sent = 0;
    do {
        sent = ::splice(pipe, nullptr, descriptor_, nullptr, bytes, SPLICE_F_NONBLOCK);
    } while (sent < 0 && errno == EINTR);
    return note_sent(sent);
}

void Connection::begin_tls(TlsPtr tls, TlsSide side) {
    tls_ = std::make_unique<TlsChannel>(std::move(tls), side, descriptor_);
    tls_->note_arrival(hung_up_);
    // The socket may hold data that no read has tried for.
    readable_ = true;
}

IoStatus Connection::shake_hands() {
    read_events_ = kReadEvents;
    const TlsChannel::Status status = tls_->shake_hands();
    if (status != TlsChannel::Status::ok) return note_unread(status);
    readable_ = true;  // more may have come with the last of it
    return IoStatus::ok;
}

// What TLS has read of the kernel is lost to epoll: `readable_` is false only if a try has just
// found both dry.
IoResult Connection::read_over_tls(std::span<char> into) {
    read_events_ = kReadEvents;
    const TlsChannel::Outcome outcome = tls_->read(into);
    if (outcome.status != TlsChannel::Status::ok) return {note_unread(outcome.status)};
    readable_ = hung_up_ || !tls_->is_dry();
    return {IoStatus::ok, outcome.bytes};
}

IoResult Connection::write_over_tls(std::span<const iovec> parts) {
    write_events_ = kWriteEvents;
    const TlsChannel::Outcome outcome = tls_->write(parts);
    switch (outcome.status) {
        case TlsChannel::Status::ok:
            return {IoStatus::ok, outcome.bytes};
        case TlsChannel::Status::wants_read:
            write_events_ |= kReadEvents;
            break;
        case TlsChannel::Status::wants_write:
            break;
        default:
            return {IoStatus::failed};
    }
    writable_ = false;
    return {IoStatus::would_block};
}

// A try to read or to shake hands has brought nothing.
IoStatus Connection::note_unread(TlsChannel::Status status) {
    switch (status) {
        case TlsChannel::Status::wants_write:
            read_events_ |= kWriteEvents;
            break;
        case TlsChannel::Status::end:
            hung_up_ = ended_ = true;
            return IoStatus::end;
        case TlsChannel::Status::cut_off:
        case TlsChannel::Status::failed:
            hung_up_ = broken_ = true;
            return IoStatus::failed;
        default:
            break;
    }
    readable_ = false;
    return IoStatus::would_block;
}

bool Connection::has_spoken() {
    const std::uint32_t fetched = readiness_.undelivered(*this);
    if (!readable_ && (fetched & kReadEvents) == 0) return false;
    if (!tls_) return true;
    tell_tls(fetched);
    const TlsChannel::Status status = tls_->probe();
    return status == TlsChannel::Status::ok || note_unread(status) != IoStatus::would_block;
}

// Requires begin_tls().
void Connection::tell_tls(std::uint32_t events) {
    if ((events & kReadEvents) != 0) tls_->note_arrival((events & kEnd) != 0);
}

void Connection::on_events(std::uint32_t events) {
    const ConnectionPtr self(this);
    if ((events & kEnd) != 0) hung_up_ = socket_ended_ = true;
    // After an end, the kernel reports a reset by this event alone: reading goes on to find the
    // end.
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) broken_ = true;
    if (tls_) tell_tls(events);
    if ((events & read_events_) != 0) {
        readable_ = true;
        if (Wakeup* woken = std::exchange(read_sleeper_, nullptr)) woken->wake_now();
    }
    if ((events & write_events_) != 0) {
        writable_ = true;
        if (Wakeup* woken = std::exchange(write_sleeper_, nullptr)) woken->wake_now();
    }
}

int Connection::connect_error() const {
    int error = 0;
    socklen_t size = sizeof error;
    return ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

std::size_t Connection::queued_bytes() const {
    int bytes = 0;
    return ::ioctl(descriptor_, SIOCOUTQ, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

// Only TCP sockets have this option; the kernel reports the ends of others.
void Connection::probe_peer() {
    constexpr int kOn = 1;
    constexpr int kSeconds = 10;  // of silence before a question, and between two
    constexpr int kQuestions = 6;
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPIDLE, &kSeconds, sizeof kSeconds);
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPINTVL, &kSeconds, sizeof kSeconds);
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPCNT, &kQuestions, sizeof kQuestions);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
}

IoStatus Connection::shutdown_send() {
    // Once: of a second call OpenSSL expects that nothing but the peer's end comes any more.
    if (tls_ && !has_finished_ && !tls_->finish()) {
        writable_ = false;
        return IoStatus::would_block;
    }
    has_finished_ = true;
    ::shutdown(descriptor_, SHUT_WR);
    return IoStatus::ok;
}

void Connection::close() {
    read_sleeper_ = write_sleeper_ = nullptr;
    readable_ = writable_ = true;
    hung_up_ = broken_ = true;
    if (descriptor_ < 0) return;
    if (tls_) tls_->close();
    readiness_.remove(*this);
    ::close(std::exchange(descriptor_, -1));
}

Descriptor Connection::release() {
    Descriptor descriptor(std::exchange(descriptor_, -1));
    if (descriptor) readiness_.release(descriptor.get(), *this);
    if (tls_) tls_->close();
    close();
    return descriptor;
}

void Connection::reset() {
    const linger drop{1, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
    close();
}

}  // namespace tidegate

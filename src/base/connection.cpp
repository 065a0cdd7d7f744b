#include "base/connection.hpp"

#include <sys/socket.h>

#include <utility>

#include <boost/asio/error.hpp>

namespace tidegate {

namespace {

IoStatus status_of(const error_code& ec) {
    if (ec == asio::error::would_block || ec == asio::error::try_again) {
        return IoStatus::would_block;
    }
    return ec == asio::error::eof ? IoStatus::end : IoStatus::failed;
}

}  // namespace

Connection::Connection(StreamSocket socket) : socket_(std::move(socket)) {
    error_code ignored;
    socket_.non_blocking(true, ignored);
}

IoResult Connection::read_some(std::span<char> into) {
    error_code ec;
    const std::size_t bytes = socket_.read_some(asio::buffer(into.data(), into.size()), ec);
    if (ec) return {status_of(ec)};
    return {IoStatus::ok, bytes};
}

IoResult Connection::write_some(std::span<const asio::const_buffer> parts) {
    error_code ec;
    const std::size_t bytes = socket_.write_some(parts, ec);
    if (ec) return {status_of(ec)};
    return {IoStatus::ok, bytes};
}

void Connection::watch_read(Wakeup* sleeper) {
    read_sleeper_ = sleeper;
    if (watching_read_) return;
    watching_read_ = true;
    socket_.async_wait(StreamSocket::wait_read, [self = ConnectionPtr(this)](const error_code&) {
        self->watching_read_ = false;
        if (Wakeup* woken = std::exchange(self->read_sleeper_, nullptr)) {
            woken->wake_now();
        }
    });
}

void Connection::watch_write(Wakeup* sleeper) {
    write_sleeper_ = sleeper;
    if (watching_write_) return;
    watching_write_ = true;
    socket_.async_wait(StreamSocket::wait_write, [self = ConnectionPtr(this)](const error_code&) {
        self->watching_write_ = false;
        if (Wakeup* woken = std::exchange(self->write_sleeper_, nullptr)) {
            woken->wake_now();
        }
    });
}

void Connection::shutdown_send() {
    error_code ignored;
    socket_.shutdown(StreamSocket::shutdown_send, ignored);
}

void Connection::close() {
    forget_sleepers();
    error_code ignored;
    socket_.close(ignored);
}

void Connection::reset() {
    error_code ignored;
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    close();
}

}  // namespace tidegate

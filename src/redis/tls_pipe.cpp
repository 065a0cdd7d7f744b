#include "redis/tls_pipe.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "telemetry/log.hpp"

namespace tidegate::redis {

namespace {

// The bytes that hiredis left when it closed its end have this long to be sent.
constexpr std::chrono::milliseconds kLinger{500};

error_code last_error() {
    return {errno, boost::system::system_category()};
}

// Gives `socket` the descriptor, or closes it; a negative one is the failure of the call before.
error_code adopt(int descriptor, int family, StreamSocket& socket) {
    if (descriptor < 0) return last_error();
    error_code ec;
    socket.assign(StreamProtocol(family, 0), descriptor, ec);
    if (ec) ::close(descriptor);
    return ec;
}

// The outcome of a connection that was being made, once its socket is writable.
error_code outcome_of_connecting(int descriptor) {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    return {error, boost::system::system_category()};
}

}  // namespace

std::shared_ptr<TlsPipe> TlsPipe::splice(Executor executor, int descriptor, TlsPtr tls,
                                         std::string& reason) {
    // From here on their sockets close the descriptors, on every way out.
    StreamSocket transport(executor);
    StreamSocket far(executor);
    error_code ec = adopt(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0), AF_INET, transport);
    int ends[2] = {-1, -1};
    if (!ec && ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
        ec = last_error();
    }
    if (!ec) ec = adopt(ends[1], AF_UNIX, far);
    if (!ec && ::dup3(ends[0], descriptor, O_CLOEXEC) < 0) ec = last_error();
    if (ends[0] >= 0) ::close(ends[0]);
    if (ec) {
        reason = ec.message();
        return nullptr;
    }
    // Later versions of hiredis would do this themselves, once connected.
    transport.set_option(asio::ip::tcp::no_delay(true), ec);
    return std::shared_ptr<TlsPipe>(
        new TlsPipe(executor, std::move(transport), std::move(far), std::move(tls)));
}

TlsPipe::TlsPipe(Executor executor, StreamSocket transport, StreamSocket far, TlsPtr tls)
    : executor_(executor),
      server_(std::move(transport)),
      far_(std::move(far)),
      lingering_(executor) {
    server_.begin_tls(std::move(tls));
}

TlsPipe::~TlsPipe() = default;

void TlsPipe::start(std::function<void(bool)> on_done) {
    on_done_ = std::move(on_done);
    live(run(shared_from_this()));
}

// An exception ends this connection, as if the server had closed it.
void TlsPipe::live(Task<> task) {
    spawn(executor_, std::move(task),
          [self = shared_from_this()](const std::exception_ptr& failed) {
              if (!failed) return;
              self->fault_ = {false, false, "internal error: " + words_of(failed)};
              telemetry::log(telemetry::Level::error, "a connection to Redis: {}",
                             self->fault_.message);
              self->close();
              if (const auto on_done = std::exchange(self->on_done_, nullptr)) on_done(false);
          });
}

Task<> TlsPipe::run(std::shared_ptr<TlsPipe> self) {
    TlsPipe& pipe = *self;
    const error_code ec = co_await pipe.shake_hands();
    const bool good = !ec && pipe.far_.socket().is_open();
    if (!good) {
        pipe.fault_ = tls_fault(pipe.server_.tls(), ec, false);
        pipe.close();
    }
    pipe.is_open_ = good;
    if (const auto on_done = std::exchange(pipe.on_done_, nullptr)) on_done(good);
    if (!good) co_return;
    pipe.live(encrypt(self));
    co_await pipe.decrypt();
}

Task<error_code> TlsPipe::shake_hands() {
    StreamSocket& socket = server_.socket();
    auto [ec] = co_await socket.async_wait(StreamSocket::wait_write, as_values);
    if (!ec) ec = outcome_of_connecting(socket.native_handle());
    if (ec) co_return ec;
    is_reached_ = true;
    co_return co_await server_.shake_hands();
}

// The pipe ends TCP without a close alert of TLS: commands and replies say how long they are, so a
// connection that is cut cannot be taken for anything else.
Task<> TlsPipe::encrypt(std::shared_ptr<TlsPipe> self) {
    TlsPipe& pipe = *self;
    while (true) {
        const auto [ended, size] = co_await pipe.far_.read_some(pipe.plain_out_);
        if (ended) break;
        const error_code cut = co_await pipe.server_.write({pipe.plain_out_.data(), size});
        // The other direction learns why: an alert may still be unread.
        if (cut) break;
    }
    error_code ignored;
    pipe.server_.socket().shutdown(StreamSocket::shutdown_send, ignored);
    pipe.close_soon();
}

// Once hiredis has closed its end this still reads, and drops what it reads: a connection that is
// closed with unread bytes is reset, and the last bytes that were sent may be lost with it.
Task<> TlsPipe::decrypt() {
    while (true) {
        const auto [ended, size] = co_await server_.read_some(plain_in_);
        if (ended) {
            fault_ = tls_fault(server_.tls(), ended, is_heard_);
            break;
        }
        is_heard_ = true;
        co_await far_.write({plain_in_.data(), size});
    }
    close();
}

void TlsPipe::finish() {
    on_done_ = nullptr;
    if (is_open_) {
        close_soon();
    } else {
        close();
    }
}

void TlsPipe::close_soon() {
    if (!far_.socket().is_open()) return;
    lingering_.expires_after(kLinger);
    lingering_.async_wait([weak = weak_from_this()](const error_code& ec) {
        const auto self = weak.lock();
        if (!ec && self != nullptr) self->close();
    });
}

void TlsPipe::close() {
    error_code ignored;
    server_.socket().close(ignored);
    far_.socket().close(ignored);
    lingering_.cancel();
}

}  // namespace tidegate::redis

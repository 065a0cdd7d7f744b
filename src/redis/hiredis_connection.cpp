#include "redis/hiredis_connection.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include "telemetry/error_log.hpp"

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
              self->fault_ = {false, false, "internal error: " + message_of(failed)};
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

namespace {

// No reply to a command of Tidegate is as long.
constexpr std::size_t kReplyBytesMax = 1 << 20;

Reply plain(const redisReply& reply) {
    const auto text = [&] { return std::string_view(reply.str, reply.len); };
    switch (reply.type) {
        case REDIS_REPLY_STRING:
        case REDIS_REPLY_STATUS:
            return {Reply::Kind::string, text()};
        case REDIS_REPLY_ERROR:
            return {Reply::Kind::error, text()};
        case REDIS_REPLY_INTEGER:
            return {Reply::Kind::integer, {}, reply.integer};
        case REDIS_REPLY_ARRAY:
            return {Reply::Kind::array, text()};
        default:
            return {Reply::Kind::nil, {}};
    }
}

}  // namespace

struct HiredisConnection::Hooks {
    static HiredisConnection& self_of(const redisAsyncContext* context) {
        return *static_cast<HiredisConnection*>(context->data);
    }
    static void add_read(void* data) { static_cast<HiredisConnection*>(data)->watch_read(); }
    static void add_write(void* data) {
        HiredisConnection& self = *static_cast<HiredisConnection*>(data);
        // Writable means connected while the connection is being made; and the rest of a flush
        // waits for the socket, not for the next turn.
        if (!self.connected_ || self.flushing_) {
            self.watch_write();
        } else {
            self.flush_soon();
        }
    }
    // hiredis is about to close its descriptor: ours lets go of it first.
    static void cleanup(void* data) {
        HiredisConnection& self = *static_cast<HiredisConnection*>(data);
        self.context_ = nullptr;
        self.descriptor_.release();
        if (self.pipe_) self.pipe_->finish();
    }
    static void on_connect(const redisAsyncContext* context, int status) {
        HiredisConnection& self = self_of(context);
        if (status == REDIS_OK) {
            self.connected_ = true;
            self.forget_writable();
            if (self.listener_ != nullptr) self.listener_->on_connected();
        } else if (Listener* listener = std::exchange(self.listener_, nullptr)) {
            listener->on_closed(context->c.errstr);
        }
    }
    static void on_disconnect(const redisAsyncContext* context, int) {
        HiredisConnection& self = self_of(context);
        if (Listener* listener = std::exchange(self.listener_, nullptr)) {
            const std::string_view error = context->c.errstr;
            // All that hiredis sees of an encrypted connection is its end.
            const std::string_view cause = self.pipe_ ? self.pipe_->fault().message : error;
            listener->on_closed(!cause.empty()   ? cause
                                : !error.empty() ? error
                                                 : "connection closed");
        }
    }
    static void on_reply(redisAsyncContext* context, void* reply, void* ticket) {
        HiredisConnection& self = self_of(context);
        // No reply: the connection is going away, and on_closed() ends all commands.
        if (reply == nullptr || self.listener_ == nullptr) return;
        self.listener_->on_reply(reinterpret_cast<std::uintptr_t>(ticket),
                                 plain(*static_cast<const redisReply*>(reply)));
    }

    // Of arrays only the first element is kept: no request needs more, and a broken server must not
    // fill the memory.
    static void* make_reply(const redisReadTask* task, int type, std::string_view text = {},
                            long long integer = 0) {
        HiredisConnection& self = *static_cast<HiredisConnection*>(task->privdata);
        redisReply& reply = *self.reply_;
        if (task->parent != nullptr) {
            if (task->idx == 0 && task->parent->parent == nullptr) self.keep_text(text);
            return &reply;
        }
        // hiredis ends the program over a reply to nothing unless that is an error.
        const bool unasked = self.context_->replies.head == nullptr && type != REDIS_REPLY_ERROR;
        self.keep_text(unasked ? "a reply without a command" : text);
        reply.type = unasked ? REDIS_REPLY_ERROR : type;
        reply.integer = integer;
        return &reply;
    }
    static redisReplyObjectFunctions reply_functions() {
        redisReplyObjectFunctions functions{};
        functions.createString = [](const redisReadTask* task, char* text, std::size_t size) {
            return make_reply(task, task->type, {text, size});
        };
        // The number of elements is an int or a size_t, as the version of hiredis has it.
        functions.createArray = [](const redisReadTask* task, auto) {
            return make_reply(task, REDIS_REPLY_ARRAY);
        };
        functions.createInteger = [](const redisReadTask* task, long long integer) {
            return make_reply(task, REDIS_REPLY_INTEGER, {}, integer);
        };
        functions.createNil = [](const redisReadTask* task) {
            return make_reply(task, REDIS_REPLY_NIL);
        };
        functions.freeObject = [](void*) {};
        return functions;
    }
};

HiredisConnection::HiredisConnection(Executor executor, Listener& listener)
    : executor_(executor),
      turn_(Turn::of(executor)),
      listener_(&listener),
      descriptor_(executor),
      reply_(std::make_unique<redisReply>()) {}

HiredisConnection::~HiredisConnection() {
    close();
}

bool HiredisConnection::connect_tcp(const std::string& host, int port, std::string& reason) {
    return adopt(redisAsyncConnect(host.c_str(), port), reason);
}

bool HiredisConnection::connect_unix(const std::string& path, std::string& reason) {
    return adopt(redisAsyncConnectUnix(path.c_str()), reason);
}

bool HiredisConnection::connect_tls(const std::string& host, int port, TlsPtr tls,
                                    std::string& reason) {
    redisAsyncContext* const context = redisAsyncConnect(host.c_str(), port);
    if (context != nullptr && context->err == 0) {
        pipe_ = TlsPipe::splice(executor_, context->c.fd, std::move(tls), reason);
        if (pipe_ == nullptr) {
            redisAsyncFree(context);
            return false;
        }
        // Else later versions would look whether the near end has connected, and fail.
        context->c.flags |= REDIS_CONNECTED;
    }
    if (!adopt(context, reason)) return false;
    pipe_->start([weak = weak_from_this()](bool good) {
        if (const auto self = weak.lock()) self->encrypted(good);
    });
    return true;
}

bool HiredisConnection::tls_was_refused() const {
    return pipe_ && pipe_->fault().refused;
}

bool HiredisConnection::awaits_tls() const {
    return pipe_ && pipe_->is_shaking_hands();
}

bool HiredisConnection::adopt(redisAsyncContext* context, std::string& reason) {
    if (context == nullptr || context->err != 0) {
        reason = context != nullptr ? context->errstr : "out of memory";
        if (context != nullptr) redisAsyncFree(context);
        return false;
    }
    context_ = context;
    context_->data = this;
    context_->ev.data = this;
    context_->ev.addRead = Hooks::add_read;
    context_->ev.delRead = nullptr;  // a watch that is not wanted any more is harmless
    context_->ev.addWrite = Hooks::add_write;
    context_->ev.delWrite = nullptr;
    context_->ev.cleanup = Hooks::cleanup;
    static redisReplyObjectFunctions functions = Hooks::reply_functions();
    context_->c.reader->fn = &functions;
    context_->c.reader->privdata = this;
    error_code ec;
    descriptor_.assign(context_->c.fd, ec);
    if (ec) {
        reason = ec.message();
        close();
        return false;
    }
    if (!pipe_) redisAsyncSetConnectCallback(context_, Hooks::on_connect);
    redisAsyncSetDisconnectCallback(context_, Hooks::on_disconnect);
    return true;
}

void HiredisConnection::encrypted(bool good) {
    if (good) {
        connected_ = true;
        if (listener_ != nullptr) listener_->on_connected();
        return;
    }
    end(pipe_->fault().message);
}

void HiredisConnection::end(const std::string& reason) {
    Listener* const listener = std::exchange(listener_, nullptr);
    close();
    if (listener != nullptr) listener->on_closed(reason);
}

void HiredisConnection::send(std::string_view command, std::uint64_t ticket) {
    if (context_ == nullptr) return;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a number on its way through C, never a pointer
    void* const carried = reinterpret_cast<void*>(static_cast<std::uintptr_t>(ticket));
    redisAsyncFormattedCommand(context_, Hooks::on_reply, carried, command.data(), command.size());
}

void HiredisConnection::keep_text(std::string_view text) {
    reply_text_ = text;
    reply_->str = reply_text_.data();
    reply_->len = reply_text_.size();
}

void HiredisConnection::close() {
    listener_ = nullptr;
    if (context_ != nullptr) redisAsyncFree(context_);
}

void HiredisConnection::watch_read() {
    if (watching_read_) return;
    watching_read_ = true;
    descriptor_.async_wait(decltype(descriptor_)::wait_read,
                           [self = shared_from_this()](const error_code&) {
                               self->turn_.run([&] { self->read(); });
                               // Only now: else hiredis would ask for the next wait before the
                               // coroutines that wait for the replies are woken.
                               self->watching_read_ = false;
                               if (self->context_ != nullptr) self->watch_read();
                           });
}

void HiredisConnection::read() {
    if (context_ != nullptr) redisAsyncHandleRead(context_);
    if (context_ == nullptr || context_->c.reader->len <= kReplyBytesMax) return;
    end("an incomplete reply");
}

void HiredisConnection::watch_write() {
    if (watching_write_) return;
    watching_write_ = true;
    descriptor_.async_wait(decltype(descriptor_)::wait_write,
                           [self = shared_from_this()](const error_code&) {
                               self->watching_write_ = false;
                               self->flush();
                           });
}

// The wait for the connection was one for writing, which Asio's reactor goes on to ask for: each
// later wait for a reply would first end at once, as the socket is writable. Registered anew, the
// descriptor is watched for what there is to read, until a flush leaves something over. If that
// fails, the handshake runs out of time. Requires that nothing waits on the descriptor.
void HiredisConnection::forget_writable() {
    error_code ignored;
    const int descriptor = descriptor_.release();
    descriptor_.assign(descriptor, ignored);
}

void HiredisConnection::flush_soon() {
    if (!ending_turn_) turn_.add(*this);
}

void HiredisConnection::end_of_turn() noexcept {
    const auto self = shared_from_this();
    ending_turn_ = true;
    if (listener_ != nullptr) listener_->on_flush();
    ending_turn_ = false;
    flush();
}

void HiredisConnection::flush() {
    if (context_ == nullptr) return;
    flushing_ = true;
    redisAsyncHandleWrite(context_);
    flushing_ = false;
}

}  // namespace tidegate::redis

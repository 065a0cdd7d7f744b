#include "redis/hiredis_connection.hpp"

#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include "redis/tls_pipe.hpp"

namespace tidegate::redis {

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

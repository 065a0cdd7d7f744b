#include "client/http1_connection.hpp"

#include <utility>

namespace tidegate::client {

namespace {

using std::chrono::milliseconds;

// How long, and how much, a client may still send to a connection that is being closed.
constexpr milliseconds kLinger{2'000};
constexpr std::size_t kLingerBytesMax = 1'048'576;
// Requests that are here already are served without waiting; after so many, other connections go
// first.
constexpr int kRequestsInARow = 32;
// While the worker drains: a connection that was just accepted has its request on the way.
constexpr milliseconds kFreshPatience{500};

}  // namespace

Http1Connection::Http1Connection(ConnectionContext& context, ConnectionPtr connection,
                                 const identity::Peer& peer, std::uint16_t local_port)
    : context_(context),
      link_{.input = {std::move(connection), context.buffers},
            .sleeper = {context.executor, context.deadlines},
            .peer = peer,
            .local_port = local_port,
            .is_draining = context.is_draining} {
    context_.metrics.client_connected();
}

Http1Connection::~Http1Connection() {
    // An exception ended a request: its client must not take what it has for an answer.
    if (stream_) {
        connection().reset();
    } else {
        connection().close();
    }
    context_.metrics.client_disconnected();
}

Task<> Http1Connection::run(std::unique_ptr<Http1Connection> self) {
    Next next = Next::request;
    int in_a_row = 0;
    while (next == Next::request) {
        if (!self->link_.input.has_bytes()) {
            co_await self->await_input();
            in_a_row = 0;
        } else if (++in_a_row % kRequestsInARow == 0) {
            co_await self->link_.sleeper.step_aside();
        }
        const bool is_silent = !self->link_.input.has_bytes() && !self->connection().readable();
        const bool is_too_long = self->link_.sleeper.expired() && !self->context_.is_draining;
        if (is_silent && is_too_long) self->context_.metrics.client_idled_out();
        if (self->link_.is_cut_off || is_silent) co_return;
        self->stream_ = self->context_.streams.take(self->link_);
        next = co_await self->read_head();
        if (next == Next::request) {
            self->is_serving_ = true;
            co_await self->context_.serve(self->context_.server, *self->stream_);
            self->is_serving_ = false;
            next = self->what_follows();
        }
        if (next == Next::request && !self->stream_->is_body_done() &&
            !co_await self->discard_body()) {
            next = Next::close;
        }
        if (next == Next::request) self->link_.input.finish_request();
        self->context_.streams.give_back(std::move(self->stream_));
    }
    if (next == Next::reset) {
        self->connection().reset();
    } else {
        co_await self->linger();
    }
}

void Http1Connection::on_drain() {
    if (!is_idle_) return;
    if (is_fresh_) {
        link_.sleeper.allow(kFreshPatience);
    } else {
        link_.sleeper.wakeup().wake_later();
    }
}

void Http1Connection::cut_off() {
    link_.is_cut_off = true;
    connection().reset();
    link_.sleeper.wakeup().wake_later();
}

// Nothing is held meanwhile: no buffer, no stream.
Task<> Http1Connection::await_input() {
    link_.input.release_buffer();
    is_idle_ = true;
    link_.sleeper.allow(context_.is_draining ? kFreshPatience
                                             : context_.config->timeouts.client_idle);
    connection().watch_read(&link_.sleeper.wakeup());
    while (!connection().readable() && !link_.sleeper.expired() && !link_.is_cut_off &&
           (is_fresh_ || !context_.is_draining)) {
        co_await link_.sleeper.sleep();
    }
    is_idle_ = is_fresh_ = false;
}

Task<Http1Connection::Next> Http1Connection::read_head() {
    const auto& settings = context_.config->limits_on_requests;
    const http::HeadBounds bounds{settings.header_bytes, settings.headers, settings.uri_bytes};
    Sleeper& sleeper = link_.sleeper;
    sleeper.allow(context_.config->timeouts.request_head);
    Http1Stream::Head state = Http1Stream::Head::complete;
    for (;;) {
        const Http1Input::Head head = stream_->read_head(bounds);
        if (head == Http1Input::Head::complete) {
            stream_->set_head_state(Http1Stream::Head::complete);
            co_return Next::request;
        }
        if (head == Http1Input::Head::broken) {
            state = Http1Stream::Head::broken;
            break;
        }
        if (head == Http1Input::Head::end) {
            // A client that closes between requests is no fault.
            if (!link_.input.has_bytes()) co_return Next::close;
            state = Http1Stream::Head::left;
            break;
        }
        connection().watch_read(&sleeper.wakeup());
        while (!connection().readable() && !sleeper.expired() && !link_.is_cut_off) {
            co_await sleeper.sleep();
        }
        if (link_.is_cut_off) co_return Next::reset;
        if (!sleeper.expired()) continue;
        if (!link_.input.has_bytes()) {
            context_.metrics.client_idled_out();
            co_return Next::close;
        }
        state = Http1Stream::Head::timeout;
        break;
    }
    stream_->set_head_state(state);
    co_await context_.serve(context_.server, *stream_);
    co_return Next::close;
}

Http1Connection::Next Http1Connection::what_follows() const {
    if (stream_->is_broken_off() || link_.is_cut_off) return Next::reset;
    return stream_->keeps_alive() ? Next::request : Next::close;
}

// Reads over the rest of a refused request's body. False when it does not come to its end.
Task<bool> Http1Connection::discard_body() {
    link_.sleeper.allow(context_.config->timeouts.request_body);
    for (;;) {
        const auto& bounds = context_.config->limits_on_requests;
        const http::BodyBatch batch = stream_->take_body({bounds.header_bytes, bounds.headers});
        stream_->drop_body(batch);
        if (batch.done) co_return true;
        if (batch.bad || link_.is_cut_off) co_return false;
        if (batch.count > 0) continue;
        const Http1Stream::Body body = stream_->read_body(link_.sleeper.wakeup());
        if (body == Http1Stream::Body::more) continue;
        if (body != Http1Stream::Body::nothing || link_.sleeper.expired()) co_return false;
        co_await link_.sleeper.sleep();
    }
}

// RFC 9112 section 9.6: a close with bytes unread resets the connection and may destroy the last
// answer. So the connection sends its end, then reads over what still comes, for a while.
Task<> Http1Connection::linger() {
    connection().shutdown_send();
    Sleeper& sleeper = link_.sleeper;
    sleeper.allow(kLinger);
    std::size_t room = kLingerBytesMax;
    std::size_t size = BufferPool::kSmall;
    char* const block = context_.buffers.take(size);
    for (;;) {
        const IoResult read = connection().read_some({block, size});
        if (read.status == IoStatus::ok && read.bytes < room) {
            room -= read.bytes;
            continue;
        }
        if (read.status != IoStatus::would_block) break;
        connection().watch_read(&sleeper.wakeup());
        while (!connection().readable() && !sleeper.expired() && !link_.is_cut_off) {
            co_await sleeper.sleep();
        }
        if (sleeper.expired() || link_.is_cut_off) break;
    }
    context_.buffers.give(block, size);
}

}  // namespace tidegate::client

#include "client/http1_connection.hpp"

#include <algorithm>
#include <utility>

#include "client/connection.hpp"
#include "client/http2_connection.hpp"
#include "http/proxy_header.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::client {

namespace {

using std::chrono::milliseconds;

// Requests that are here already are served without waiting; after so many, other connections go
// first.
constexpr int kRequestsInARow = 32;
// While the worker drains: a connection that was just accepted has its request on the way.
constexpr milliseconds kFreshPatience{500};

}  // namespace

Http1Connection::Http1Connection(ConnectionContext& context, ConnectionPtr connection,
                                 const Arrival& arrival)
    : context_(context),
      link_{.input = {std::move(connection), context.buffers},
            .sleeper = {context.executor, context.deadlines},
            .arrival = arrival,
            .is_draining = context.is_draining} {
    link_.input.connection().forget_sleepers();
    context_.connections.push_back(*this);
    context_.metrics.connections.opened.add();
}

Http1Connection::~Http1Connection() {
    if (!link_.input.has_connection()) {
        // It was handed over.
    } else if (stream_) {
        // An exception ended a request: its client must not take the bytes that it has for an
        // answer.
        connection().reset();
    } else {
        connection().close();
    }
    context_.metrics.connections.closed.add();
}

Task<> Http1Connection::run(std::unique_ptr<Http1Connection> self) {
    Next next = Next::request;
    int in_a_row = 0;
    while (next == Next::request) {
        if (!self->link_.input.has_bytes()) {
            co_await self->await_input();
            in_a_row = 0;
        } else if (++in_a_row % kRequestsInARow == 0) {
            co_await self->link_.sleeper.yield();
        }
        const bool is_silent = !self->link_.input.has_bytes() && !self->connection().readable();
        const bool is_too_long = self->link_.sleeper.expired() && !self->context_.is_draining;
        if (is_silent && is_too_long) self->context_.metrics.idle_closed.add();
        if (self->link_.is_cut_off) co_return;
        if (is_silent) {
            if (self->connection().tls() != nullptr) self->connection().shutdown_send();
            co_return;
        }
        self->stream_ = self->context_.streams.take(self->link_);
        next = co_await self->read_head();
        if (next == Next::http2) {
            std::unique_ptr<Http2Connection> successor = self->hand_over();
            self.reset();
            co_await Http2Connection::run(std::move(successor));
            co_return;
        }
        if (next == Next::idle) {
            self->context_.streams.give_back(std::move(self->stream_));
            next = Next::request;
            continue;
        }
        self->is_fresh_ = false;
        if (next == Next::request) {
            self->is_serving_ = true;
            Stream stream(*self->stream_);
            co_await self->context_.serve(self->context_.server, stream);
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
    } else if (next != Next::ended || !self->connection().has_socket_ended()) {
        // A client that has ended TLS and its socket has nearly always closed both directions: a
        // close_notify (RFC 8446 section 6.1) would take a record and two system calls, and be
        // answered by a reset.
        co_await linger(self->connection(), self->link_.sleeper, self->context_.buffers,
                        self->context_.config->timeouts.client_write, self->link_.is_cut_off);
    }
}

void Http1Connection::on_drain() {
    if (link_.is_tunnel) link_.sleeper.wakeup().wake_later();
    if (!is_idle_) return;
    link_.sleeper.allow(idle_patience());
    link_.sleeper.wakeup().wake_later();
}

milliseconds Http1Connection::idle_patience() const {
    if (!context_.is_draining) return context_.config->timeouts.client_idle;
    return is_fresh_ ? std::max(kFreshPatience, context_.idle_patience) : context_.idle_patience;
}

void Http1Connection::cut_off() {
    link_.is_cut_off = true;
    connection().reset();
    link_.sleeper.wakeup().wake_later();
}

bool Http1Connection::cut_off_if(bool is_meant) {
    if (is_meant) cut_off();
    return is_meant;
}

// The connection holds nothing meanwhile: no buffer, no stream.
Task<> Http1Connection::await_input() {
    link_.input.release_buffer();
    is_idle_ = true;
    link_.sleeper.allow(idle_patience());
    connection().watch_read(&link_.sleeper.wakeup());
    while (!connection().readable() && !link_.sleeper.expired() && !link_.is_cut_off &&
           idle_patience() > milliseconds{0}) {
        co_await link_.sleeper.sleep();
    }
    is_idle_ = false;
}

Task<Http1Connection::Next> Http1Connection::read_head() {
    const auto& settings = context_.config->limits_on_requests;
    const http::HeadBounds bounds{settings.header_bytes, settings.headers, settings.uri_bytes};
    Sleeper& sleeper = link_.sleeper;
    sleeper.allow(context_.config->timeouts.request_head);
    Http1Stream::Head state = Http1Stream::Head::complete;
    for (;;) {
        const Http1Input::Head head = stream_->read_head(bounds);
        if (head == Http1Input::Head::complete && !takes_http1()) {
            stream_->refuse_version();
            state = Http1Stream::Head::broken;
            break;
        }
        if (head == Http1Input::Head::complete) {
            stream_->set_head_state(Http1Stream::Head::complete);
            co_return Next::request;
        }
        if (head == Http1Input::Head::broken) {
            if (has_begun_http2()) co_return Next::http2;
            if (!takes_http1()) co_return Next::reset;
            state = Http1Stream::Head::broken;
            break;
        }
        if (head == Http1Input::Head::end) {
            // A client that closes between requests is no fault.
            if (!link_.input.has_bytes()) co_return Next::ended;
            state = Http1Stream::Head::left;
            break;
        }
        if (was_woken_by_tls()) co_return Next::idle;
        connection().watch_read(&sleeper.wakeup());
        while (!connection().readable() && !sleeper.expired() && !link_.is_cut_off) {
            co_await sleeper.sleep();
        }
        if (link_.is_cut_off) co_return Next::reset;
        if (!sleeper.expired()) continue;
        if (!link_.input.has_bytes()) {
            context_.metrics.idle_closed.add();
            co_return Next::close;
        }
        state = Http1Stream::Head::timeout;
        break;
    }
    if (http::looks_like_proxy_header(link_.input.incomplete_head())) {
        if (link_.arrival.has_proxy_header) {
            context_.metrics.proxy_headers_refused[ProxyHeaderRefusal::malformed].add();
            co_return Next::reset;
        }
        tell_unexpected_header();
    }
    stream_->set_head_state(state);
    Stream stream(*stream_);
    co_await context_.serve(context_.server, stream);
    co_return Next::close;
}

// Over TLS both sides have agreed upon it.
bool Http1Connection::takes_http1() const {
    return link_.arrival.takes_http1 || link_.input.connection().tls() != nullptr;
}

// By prior knowledge (RFC 9113 section 3.3). A preface is no head that HTTP/1 could take.
bool Http1Connection::has_begun_http2() const {
    constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\n";
    return is_fresh_ && link_.arrival.takes_http2 && link_.input.connection().tls() == nullptr &&
           link_.input.incomplete_head().starts_with(kPreface);
}

std::unique_ptr<Http2Connection> Http1Connection::hand_over() {
    context_.streams.give_back(std::move(stream_));
    ConnectionPtr connection = link_.input.take_connection();
    return std::make_unique<Http2Connection>(context_, std::move(connection), link_.arrival,
                                             link_.input.incomplete_head());
}

// Nothing was read, and no record has begun: it was the end of the handshake, or a message of TLS.
// The client may be silent for long, and must hold no buffer meanwhile.
bool Http1Connection::was_woken_by_tls() const {
    const TlsChannel* const tls = link_.input.connection().tls();
    return tls != nullptr && !link_.input.has_bytes() && !tls->has_begun_record();
}

void Http1Connection::tell_unexpected_header() const {
    // Two empty lines alone are also what a broken client sends.
    constexpr std::size_t kTwoLines = 2;
    static telemetry::LogInterval said;
    const auto& peer = link_.arrival.peer.address;
    if (!peer || link_.input.incomplete_head().size() <= kTwoLines) return;
    if (!said.is_due(std::chrono::steady_clock::now())) return;
    telemetry::log(telemetry::Level::warn,
                   "{} sends a PROXY header to a listener that takes none, and gets 400: if it is "
                   "your balancer, write `proxy_protocol: {{from: [{}]}}` beside the address of "
                   "the listener; if it is a client, do nothing. Logged once a minute",
                   peer->to_string(), peer->to_string());
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
        const BodyInput body = stream_->read_body(link_.sleeper.wakeup());
        if (body == BodyInput::more) continue;
        if (body != BodyInput::nothing || link_.sleeper.expired()) co_return false;
        co_await link_.sleeper.sleep();
    }
}

}  // namespace tidegate::client

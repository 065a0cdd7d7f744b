#include "proxy/http1_client.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "http/gather.hpp"
#include "proxy/heads.hpp"

namespace tidegate::proxy {

using http::HeadFault;

Http1Client::Http1Client(ConnectionPtr connection, BufferPool& buffers, identity::Peer peer,
                         std::uint16_t local_port)
    : connection_(std::move(connection)),
      buffer_(buffers),
      body_buffer_(buffers),
      peer_(peer),
      local_port_(local_port) {}

Http1Client::Head Http1Client::read_head(Exchange& exchange, const http::HeadBounds& bounds) {
    for (;;) {
        // RFC 9112 section 2.2: an empty line before the request is passed over; old clients end
        // a body with one too many. One: else they could be sent without end.
        if (!passed_empty_line_ && buffer_.data().starts_with("\r\n")) {
            buffer_.consume(2);
            scanner_.reset();
            passed_empty_line_ = true;
        }
        const std::size_t length = scanner_.scan(buffer_.data(), bounds);
        HeadFault fault = scanner_.fault();
        if (length != 0) {
            head_bytes_ = static_cast<std::uint32_t>(length);
            fault = http::parse_request_head(buffer_.data().substr(0, length), bounds,
                                             exchange.facts.head);
            if (fault == HeadFault::none) return Head::complete;
        }
        if (fault != HeadFault::none) {
            exchange.decision.refuse(ask::fault_of(fault), http::describe(fault));
            return Head::broken;
        }
        if (buffer_.space().empty()) {
            buffer_.make_room(std::min(std::max(buffer_.capacity() * 2, buffer_.size() + 1),
                                       std::max(bounds.bytes + 1, buffer_.size() + 1)));
        }
        const IoResult read = connection_->read_some(buffer_.space());
        if (read.status == IoStatus::would_block) return Head::more;
        if (read.status != IoStatus::ok) return Head::end;
        buffer_.commit(read.bytes);
    }
}

std::string_view Http1Client::body_input() const {
    const std::size_t used = head_bytes_ + body_bytes_;
    return used < buffer_.size() ? buffer_.data().substr(used) : body_buffer_.data();
}

http::BodyBatch Http1Client::take_body(Exchange& exchange, const http::TrailerBounds& bounds) {
    return exchange.client.body.take(body_input(), bounds);
}

void Http1Client::drop_body(const http::BodyBatch& batch) {
    if (head_bytes_ + body_bytes_ < buffer_.size()) {
        body_bytes_ += static_cast<std::uint32_t>(batch.consumed);
    } else {
        body_buffer_.consume(batch.consumed);
    }
}

// False when what is there fills the largest buffer.
bool Http1Client::make_body_room() {
    const std::size_t used = head_bytes_ + body_bytes_;
    if (used < buffer_.size()) {
        // The beginning of something that goes on: it has to be in one piece with the rest.
        const std::string_view rest = buffer_.data().substr(used);
        const std::span<char> room = body_buffer_.space(BufferPool::kLarge);
        if (rest.size() > room.size()) return false;
        std::memcpy(room.data(), rest.data(), rest.size());
        body_buffer_.commit(rest.size());
        body_bytes_ += static_cast<std::uint32_t>(rest.size());
    }
    if (body_buffer_.space(BufferPool::kLarge).empty()) {
        if (body_buffer_.size() == body_buffer_.capacity()) return false;
        body_buffer_.make_room(body_buffer_.capacity());
    }
    return true;
}

Http1Client::Body Http1Client::read_body(Exchange& exchange, Wakeup& sleeper) {
    if (connection_->readable()) {
        if (!make_body_room()) return Body::too_long;
        std::span<char> space = body_buffer_.space(BufferPool::kLarge);
        if (exchange.client.body.left() < space.size()) {
            space = space.first(static_cast<std::size_t>(exchange.client.body.left()));
        }
        const IoResult read = connection_->read_some(space);
        if (read.status == IoStatus::ok) {
            body_buffer_.commit(read.bytes);
            return Body::more;
        }
        if (read.status != IoStatus::would_block) return Body::left;
    }
    connection_->watch_read(&sleeper);
    return Body::nothing;
}

bool Http1Client::has_left(Wakeup& sleeper) {
    connection_->watch_read(&sleeper);
    if (connection_->readable()) read_ahead();
    return connection_->is_broken();
}

bool Http1Client::is_read_to_end() {
    read_ahead();
    return connection_->has_ended() && !has_read_ahead();
}

// Reads what follows while the request is being answered, only to learn what became of the client:
// it belongs to the next request, which will look for it.
void Http1Client::read_ahead() {
    if (connection_->has_ended()) return;
    // A head that fills its buffer to the last byte leaves no room behind it.
    const bool full = buffer_.space().empty();
    // Pipelined requests fill what there is: somebody is there.
    if (has_read_ahead() && (full || !body_buffer_.empty())) return;
    Buffer& into = full ? body_buffer_ : buffer_;
    const IoResult read = connection_->read_some(into.space(BufferPool::kLarge));
    if (read.status == IoStatus::ok) into.commit(read.bytes);
}

IoStatus Http1Client::send_interim(Exchange& exchange) {
    if (exchange.facts.head.minor_version == 0) return IoStatus::ok;
    exchange.client.head.clear();
    append_interim_head(exchange.upstream.head(), exchange.client.head);
    exchange.client.outbox.clear();
    exchange.client.outbox.add(exchange.client.head);
    return exchange.client.outbox.flush(*connection_);
}

// One write for whatever there is: head, pieces and what frames them.
IoStatus Http1Client::send_answer(Exchange& exchange, const http::BodyBatch& batch) {
    const http::BodyKind kind = outgoing(exchange, exchange.upstream.framing().body);
    exchange.client.head.clear();
    if (exchange.relay.status == 0) {
        if (kind == http::BodyKind::until_close) exchange.client.keep_alive = false;
        append_answer_head(exchange, exchange.upstream.head(), exchange.upstream.framing(), kind,
                           exchange.client.head);
        exchange.relay.status =
            exchange.upstream.head().status;  // from here on the client has seen something
    }
    exchange.client.outbox.clear();
    http::gather(kind, batch, exchange.upstream.trailers(), exchange.client.head,
                 exchange.client.tail, exchange.client.outbox);
    return exchange.client.outbox.flush(*connection_);
}

IoStatus Http1Client::send_fault(Exchange& exchange) {
    exchange.client.head.clear();
    exchange.relay.bytes_sent = append_fault_answer(exchange, exchange.client.head);
    exchange.client.outbox.clear();
    exchange.client.outbox.add(exchange.client.head);
    return exchange.client.outbox.flush(*connection_);
}

Task<IoStatus> Http1Client::send_rest(Exchange& exchange, Sleeper& sleeper,
                                      std::chrono::milliseconds patience) {
    return exchange.client.outbox.flush_all(*connection_, sleeper, patience);
}

void Http1Client::finish_request() {
    buffer_.consume(head_bytes_ + body_bytes_);
    // What was read behind a streamed body comes after everything the head's buffer held.
    if (!body_buffer_.empty()) buffer_.swap(body_buffer_);
    body_buffer_.release();
    head_bytes_ = body_bytes_ = 0;
    passed_empty_line_ = false;
    scanner_.reset();
}

http::BodyKind Http1Client::outgoing(const Exchange& exchange, http::BodyKind kind) {
    if (kind != http::BodyKind::chunked && kind != http::BodyKind::until_close) return kind;
    return exchange.facts.head.minor_version == 1 ? http::BodyKind::chunked
                                                  : http::BodyKind::until_close;
}

}  // namespace tidegate::proxy

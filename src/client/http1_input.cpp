#include "client/http1_input.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace tidegate::client {

using http::HeadFault;

Http1Input::Http1Input(ConnectionPtr connection, BufferPool& buffers)
    : connection_(std::move(connection)), buffer_(buffers), body_buffer_(buffers) {}

Http1Input::Head Http1Input::read_head(const http::HeadBounds& bounds, http::RequestHead& into,
                                       HeadFault& fault) {
    for (;;) {
        // RFC 9112 section 2.2: an empty line before the request is passed over; old clients end
        // a body with one too many. One: else they could be sent without end.
        if (!passed_empty_line_ && buffer_.data().starts_with("\r\n")) {
            buffer_.consume(2);
            scanner_.reset();
            passed_empty_line_ = true;
        }
        head_bytes_ = static_cast<std::uint32_t>(take_head(bounds, into, fault));
        if (fault != HeadFault::none) return Head::broken;
        if (head_bytes_ != 0) return Head::complete;
        if (buffer_.space().empty()) {
            buffer_.make_room(std::min(std::max(buffer_.capacity() * 2, buffer_.size() + 1),
                                       std::max(bounds.bytes + 1, buffer_.size() + 1)));
        }
        const IoResult read = connection_->read_some(buffer_.space());
        if (read.status == IoStatus::would_block) return Head::nothing;
        if (read.status != IoStatus::ok) return Head::end;
        buffer_.commit(read.bytes);
    }
}

// Returns the length of the head, or 0: it is not complete, or `fault` says why it is refused. It
// tries only once to read a head without scanning it: a head that comes byte by byte must not be
// read that often.
std::size_t Http1Input::take_head(const http::HeadBounds& bounds, http::RequestHead& into,
                                  HeadFault& fault) {
    fault = HeadFault::none;
    const std::string_view bytes = buffer_.data();
    if (bytes.empty()) return 0;
    if (!scanner_.has_begun()) {
        const std::size_t length = http::parse_request_head_in(bytes, bounds, into);
        if (length != 0) return length;
    }
    const std::size_t length = scanner_.scan(bytes, bounds);
    fault = scanner_.fault();
    if (length != 0) fault = http::parse_request_head(bytes.substr(0, length), bounds, into);
    return length;
}

std::string_view Http1Input::body() const {
    const std::size_t used = head_bytes_ + body_bytes_;
    return used < buffer_.size() ? buffer_.data().substr(used) : body_buffer_.data();
}

void Http1Input::drop_body(std::size_t bytes) {
    if (head_bytes_ + body_bytes_ < buffer_.size()) {
        body_bytes_ += static_cast<std::uint32_t>(bytes);
    } else {
        body_buffer_.consume(bytes);
    }
}

// False when what is there fills the largest buffer.
bool Http1Input::make_body_room() {
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

BodyInput Http1Input::read_body(std::uint64_t left, Wakeup& wakeup) {
    if (connection_->readable()) {
        if (!make_body_room()) return BodyInput::too_long;
        std::span<char> space = body_buffer_.space(BufferPool::kLarge);
        if (left < space.size()) space = space.first(static_cast<std::size_t>(left));
        const IoResult read = connection_->read_some(space);
        if (read.status == IoStatus::ok) {
            body_buffer_.commit(read.bytes);
            return BodyInput::more;
        }
        if (read.status != IoStatus::would_block) return BodyInput::left;
    }
    connection_->watch_read(&wakeup);
    return BodyInput::nothing;
}

BodyInput Http1Input::read_body(std::uint64_t bytes_max, SplicePipe& pipe, Wakeup& wakeup) {
    if (connection_->readable()) {
        body_buffer_.release();
        const IoResult read = pipe.fill(*connection_, bytes_max);
        if (read.status == IoStatus::ok) return BodyInput::more;
        if (read.status != IoStatus::would_block) return BodyInput::left;
    }
    connection_->watch_read(&wakeup);
    return BodyInput::nothing;
}

bool Http1Input::has_left_by_now(bool half_close) {
    if (sees_hang_up(half_close)) return true;
    if (connection_->readable()) {
        const bool had_ended = connection_->has_ended();
        read_ahead();
        // With `half_close`, the client may have closed for good all the same. While the upstream
        // is silent, the proxy sends nothing that would show it.
        if (half_close && !had_ended && connection_->has_ended()) connection_->probe_peer();
    }
    return connection_->is_broken() || (!half_close && connection_->has_ended());
}

bool Http1Input::has_hung_up(bool half_close, Wakeup& wakeup) {
    connection_->watch_read(&wakeup);
    return sees_hang_up(half_close);
}

bool Http1Input::sees_hang_up(bool half_close) const {
    return connection_->is_broken() || (!half_close && connection_->has_hung_up());
}

bool Http1Input::is_at_end() {
    if (!connection_->has_hung_up()) return false;
    read_ahead();
    return connection_->has_ended() && !has_read_ahead();
}

// Reads what follows while the request is being answered, only to learn whether the client is still
// there. The bytes belong to the next request, which will look for them.
void Http1Input::read_ahead() {
    if (connection_->has_ended()) return;
    // A head that fills its buffer to the last byte leaves no room behind it.
    const bool full = buffer_.space().empty();
    // Pipelined requests fill the buffer: the client is there.
    if (has_read_ahead() && (full || !body_buffer_.empty())) return;
    Buffer& into = full ? body_buffer_ : buffer_;
    const IoResult read = connection_->read_some(into.space(BufferPool::kLarge));
    if (read.status == IoStatus::ok) into.commit(read.bytes);
}

void Http1Input::finish_request() {
    buffer_.consume(head_bytes_ + body_bytes_);
    // What was read behind a streamed body comes after everything the head's buffer held.
    if (!body_buffer_.empty()) buffer_.swap(body_buffer_);
    body_buffer_.release();
    head_bytes_ = body_bytes_ = 0;
    passed_empty_line_ = false;
    scanner_.reset();
}

void Http1Input::become_tunnel() {
    finish_request();
    if (buffer_.empty()) buffer_.release();
}

}  // namespace tidegate::client

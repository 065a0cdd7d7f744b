#include "client/http1_stream.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "http/framing.hpp"

namespace tidegate::client {

namespace {

using http::BodyKind;

}  // namespace

void Http1Stream::begin(Http1Link& link) {
    link_ = &link;
    StreamBase::begin(link.arrival, link.sleeper, link.is_draining);
}

void Http1Stream::end() {
    head_.fields.clear();
    framing_ = {};
    body_.start(framing_);
    clear_for_reuse(out_head_);
    clear_for_reuse(out_tail_);
    outbox_.clear();
    head_sent_ = keep_alive_ = is_broken_off_ = false;
}

void Http1Stream::set_head_state(Head state) {
    head_state_ = state;
    minor_version_ = head_.minor_version;
}

void Http1Stream::begin_body() {
    body_.start(framing_);
    keep_alive_ = framing_.keep_alive;
}

BodyInput Http1Stream::read_body(SplicePipe& pipe, Wakeup& wakeup) {
    const BodyInput input = link_->input.read_body(body_.spliceable(), pipe, wakeup);
    body_.skip(pipe.size());
    return input;
}

void Http1Stream::keep_alive_if(bool may_go_on) {
    keep_alive_ =
        keep_alive_ && may_go_on && !is_draining() && !(body_.done() && link_->input.is_at_end());
}

std::string& Http1Stream::begin_head(int status, std::string_view reason) {
    if (status == 200 && reason == "OK") {  // nearly all
        out_head_ = "HTTP/1.1 200 OK\r\n";
        return out_head_;
    }
    std::array<char, 13> line{'H', 'T', 'T', 'P', '/', '1', '.', '1', ' ', '0', '0', '0', ' '};
    for (std::size_t at = 11; at > 8; --at, status /= 10) {
        line[at] = static_cast<char>('0' + status % 10);
    }
    out_head_.assign(line.data(), line.size());
    out_head_.append(reason).append("\r\n");
    return out_head_;
}

IoStatus Http1Stream::send_interim() {
    out_head_ += "\r\n";
    outbox_.clear();
    outbox_.add(out_head_);
    return outbox_.flush(link_->input.connection());
}

IoStatus Http1Stream::send_switch() {
    if (sends_hsts()) out_head_ += *arrival().hsts_line;
    keep_alive_ = false;
    return send_interim();
}

// A tunnel may last for days: what the message took is given back.
void Http1Stream::become_tunnel() {
    link_->is_tunnel = true;
    link_->input.become_tunnel();
    head_ = http::RequestHead();
    free_text(out_head_);
    free_text(out_tail_);
    outbox_.release();
}

void Http1Stream::end_head(BodyKind body, std::optional<std::uint64_t> length) {
    const bool is_streamed = body == BodyKind::chunked || body == BodyKind::until_close;
    out_body_ = body;
    if (is_streamed) {
        out_body_ = minor_version_ > 0 ? BodyKind::chunked : BodyKind::until_close;
        if (out_body_ == BodyKind::chunked) out_head_ += "Transfer-Encoding: chunked\r\n";
        if (out_body_ == BodyKind::until_close) keep_alive_ = false;
    } else if (length) {
        out_head_ += "Content-Length: ";
        append_number(*length, out_head_);
        out_head_ += "\r\n";
    }
    if (sends_hsts()) out_head_ += *arrival().hsts_line;
    if (!keep_alive_) {
        out_head_ += "Connection: close\r\n";
    } else if (minor_version_ == 0) {
        out_head_ += "Connection: keep-alive\r\n";
    }
    out_head_ += "\r\n";
}

// One write for all there is: head, pieces and what frames them.
IoStatus Http1Stream::send(const http::BodyBatch& batch, const http::Fields& trailers) {
    if (std::exchange(head_sent_, true)) out_head_.clear();
    outbox_.clear();
    http::gather(out_body_, batch, trailers, out_head_, out_tail_, outbox_);
    return outbox_.flush(link_->input.connection());
}

IoStatus Http1Stream::send(SplicePipe& pipe) {
    outbox_.clear();
    outbox_.add(pipe);
    return outbox_.flush(link_->input.connection());
}

IoStatus Http1Stream::send_all(std::string_view content) {
    out_head_ += content;
    outbox_.clear();
    outbox_.add(out_head_);
    return outbox_.flush(link_->input.connection());
}

IoStatus Http1Stream::try_rest() {
    Connection& connection = link_->input.connection();
    IoStatus status = IoStatus::would_block;
    if (connection.writable()) status = outbox_.flush(connection);
    if (status == IoStatus::would_block) connection.watch_write(&link_->sleeper.wakeup());
    return status;
}

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

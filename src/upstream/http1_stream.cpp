#include "upstream/http1_stream.hpp"

#include <span>
#include <tuple>

#include "base/text.hpp"
#include "http/framing.hpp"
#include "upstream/pool.hpp"

namespace tidegate::upstream {

namespace {

// Never called: of a tunnel, neither a body nor an answer waits for its client.
void ignore_eviction(void*) {}

}  // namespace

void Http1Stream::open(Server& server, ConnectionPtr connection, bool is_reused) {
    server_ = &server;
    connection_ = std::move(connection);
    is_reused_ = is_reused;
    is_evicted_ = false;
    input_.release();
    ahead_.release();
    has_ahead_ = false;
    scanner_.reset();
    has_answered_ = may_hold_more_ = may_switch_ = false;
}

std::pair<ServerPtr, ConnectionPtr> Http1Stream::release() {
    return {std::move(server_), std::move(connection_)};
}

std::pair<ServerPtr, ConnectionPtr> Http1Stream::release_tunnel(Buffer& behind) {
    input_.consume(std::exchange(head_bytes_, 0));
    if (input_.empty()) input_.release();
    behind.swap(input_);
    // What waited here may end before the tunnel does.
    connection_->forget_sleepers();
    return release();
}

void Http1Stream::reset() {
    clear_for_reuse(out_head_);
    clear_for_reuse(out_tail_);
    clear_for_reuse(connection_options_);
    outbox_.clear();
    input_.release();
    ahead_.release();
    has_ahead_ = false;
    head_.fields.clear();
    framing_ = {};
    body_.start(framing_);
    head_bytes_ = 0;
}

std::string& Http1Stream::begin_head(std::string_view method, std::string_view path,
                                     std::string_view query) {
    is_to_head_ = method == "HEAD";
    head_sent_ = false;
    out_head_.clear();
    out_head_.append(method).append(" ").append(path).append(query).append(" HTTP/1.1\r\n");
    return out_head_;
}

void Http1Stream::end_head(http::BodyKind body, std::optional<std::uint64_t> length) {
    out_body_ = body;
    if (body == http::BodyKind::chunked) {
        out_head_ += "Transfer-Encoding: chunked\r\n";
    } else if (length) {
        out_head_ += "Content-Length: ";
        append_number(*length, out_head_);
        out_head_ += "\r\n";
    }
    out_head_ += "\r\n";
}

IoStatus Http1Stream::send(const http::BodyBatch& batch, const http::Fields& trailers) {
    if (std::exchange(head_sent_, true)) out_head_.clear();
    outbox_.clear();
    http::gather(out_body_, batch, trailers, out_head_, out_tail_, outbox_);
    return outbox_.flush(*connection_);
}

IoStatus Http1Stream::send(SplicePipe& pipe) {
    outbox_.clear();
    outbox_.add(pipe);
    return outbox_.flush(*connection_);
}

Task<IoStatus> Http1Stream::send_rest(Sleeper& sleeper, std::chrono::milliseconds patience) {
    return outbox_.flush_all(*connection_, sleeper, patience);
}

Http1Stream::Head Http1Stream::read_head(const http::HeadBounds& bounds, Wakeup& wakeup) {
    for (;;) {
        head_bytes_ = scanner_.scan(input_.data(), bounds);
        if (scanner_.fault() != http::HeadFault::none) return Head::broken;
        if (head_bytes_ != 0) return parse_head(bounds) ? Head::complete : Head::broken;
        switch (read(wakeup)) {
            case Input::more:
                continue;
            case Input::nothing:
                return Head::nothing;
            case Input::end:
            case Input::broken:
                return Head::broken;
        }
    }
}

bool Http1Stream::parse_head(const http::HeadBounds& bounds) {
    constexpr int kSwitchingProtocols = 101;
    return http::parse_response_head(input_.data().substr(0, head_bytes_), bounds, head_) ==
               http::HeadFault::none &&
           http::response_framing(head_, is_to_head_, framing_) == http::FramingFault::none &&
           (head_.status != kSwitchingProtocols || may_switch_);
}

void Http1Stream::drop_interim() {
    input_.consume(std::exchange(head_bytes_, 0));
    scanner_.reset();
}

void Http1Stream::begin_body() {
    body_.start(framing_);
    connection_options_.clear();
    // The trailers come when the head's bytes are gone.
    if (!framing_.names_fields || framing_.body != http::BodyKind::chunked) return;
    for (const http::Field& field : head_.fields) {
        if (field.id != http::FieldName::connection) continue;
        connection_options_.append(field.value).append(",");
    }
}

http::BodyBatch Http1Stream::take_body(const http::TrailerBounds& bounds) {
    http::BodyBatch batch = body_.take(input_.data().substr(head_bytes_), bounds);
    if (batch.done && !trailers().empty()) {
        http::ListedNames named;
        named.add(connection_options_);
        named.sort();
        std::erase_if(trailers(),
                      [&](const http::Field& field) { return named.include(field.name); });
    }
    return batch;
}

void Http1Stream::drop_body(const http::BodyBatch& batch) {
    input_.consume(std::exchange(head_bytes_, 0) + batch.consumed);
    if (ahead_.empty()) return;
    input_.release();
    input_.swap(ahead_);
    has_ahead_ = true;
}

bool Http1Stream::read_ahead(Wakeup& wakeup) {
    if (framing_.body != http::BodyKind::length || body_.left() >= BufferPool::kLarge) return false;
    while (ahead_.size() < body_.left()) {
        IoResult result{IoStatus::would_block};
        const std::span<char> space = ahead_.space(BufferPool::kLarge);
        if (connection_->readable()) result = connection_->read_some(space);
        if (result.status == IoStatus::would_block) connection_->watch_read(&wakeup);
        if (result.status != IoStatus::ok) return false;  // read_body() finds out why
        ahead_.commit(result.bytes);
        may_hold_more_ = result.bytes == space.size();
    }
    return true;
}

Http1Stream::Body Http1Stream::read_body(Wakeup& wakeup) {
    if (std::exchange(has_ahead_, false)) return Body::more;
    // A body that goes on is read in large portions; the head's views are not needed any more.
    if (input_.empty() && body_.left() > BufferPool::kSmall) {
        if (input_.capacity() < BufferPool::kLarge) input_.release();
        input_.space(BufferPool::kLarge);
    }
    switch (read(wakeup)) {
        case Input::more:
            return Body::more;
        case Input::nothing:
            return Body::nothing;
        case Input::end:
            return body_.end_of_input() ? Body::end : Body::cut_off;
        case Input::broken:  // a reset ends no body, not even one that only a close ends
            break;
    }
    return Body::cut_off;
}

std::uint64_t Http1Stream::spliceable() const {
    const bool is_plain = connection_ && connection_->tls() == nullptr;
    return is_plain && input_.empty() ? body_.spliceable() : 0;
}

Http1Stream::Body Http1Stream::read_body(SplicePipe& pipe, Wakeup& wakeup) {
    if (connection_->readable()) {
        const IoResult result = pipe.fill(*connection_, spliceable());
        body_.skip(result.bytes);
        input_.release();
        if (result.status == IoStatus::ok) return Body::more;
        if (result.status != IoStatus::would_block) return Body::cut_off;
    }
    connection_->watch_read(&wakeup);
    return Body::nothing;
}

Http1Stream::Input Http1Stream::read(Wakeup& wakeup) {
    if (!connection_->readable()) {
        connection_->watch_read(&wakeup);
        return Input::nothing;
    }
    if (input_.space().empty()) {
        input_.make_room(input_.size() < input_.capacity() ? input_.capacity()
                                                           : input_.capacity() * 2);
    }
    const std::span<char> space = input_.space();
    const IoResult result = connection_->read_some(space);
    switch (result.status) {
        case IoStatus::ok:
            input_.commit(result.bytes);
            has_answered_ = true;
            may_hold_more_ = result.bytes == space.size();
            return Input::more;
        case IoStatus::would_block:
            connection_->watch_read(&wakeup);
            return Input::nothing;
        case IoStatus::end:
            return Input::end;
        case IoStatus::failed:
            break;
    }
    return Input::broken;
}

TunnelStream::TunnelStream(Pool& pool, BufferPool& buffers, Http1Stream& stream,
                           ActiveRequest& request)
    : pool_(pool), input_(buffers), request_(request, &ignore_eviction, nullptr) {
    std::tie(server_, connection_) = stream.release_tunnel(input_);
}

TunnelStream::~TunnelStream() {
    pool_.close_tunnel(connection_);
    server_->end_request(pool_.is_counted());
}

}  // namespace tidegate::upstream

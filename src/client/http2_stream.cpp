#include "client/http2_stream.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "h2/fields.hpp"

namespace tidegate::client {

namespace {

using http::BodyKind;

// What a tunnel sends at a time.
constexpr std::size_t kTunnelPortion = 16'384;

}  // namespace

Http2Stream::Http2Stream(Executor executor, DeadlineWheel& deadlines, BufferPool& buffers)
    : own_sleeper_(std::move(executor), deadlines), arrived_(buffers), taken_(buffers) {}

void Http2Stream::begin(Http2Link& link, h2::ServerStream* stream) {
    StreamBase::begin(link.arrival, own_sleeper_, link.is_draining);
    link_ = &link;
    stream_ = stream;
    head_state_ = Head::complete;
    if (stream_ == nullptr) {
        head_state_ = Head::broken;
        head_fault_ = http::HeadFault::bad_field;
        is_done_ = true;
        return;
    }
    stream_->owner = this;
    std::swap(head_, stream_->head());
    head_fault_ = stream_->head_fault();
    if (head_fault_ != http::HeadFault::none) head_state_ = Head::broken;
    announced_ = stream_->announced();
    protocol_ = stream_->protocol();
    if (!protocol_.empty()) {
        head_.method = "GET";  // what it is in HTTP/1
    } else {
        h2::set_body(head_, stream_->has_body(), unannounced_);
    }
}

void Http2Stream::end() {
    head_.clear();
    framing_ = unannounced_ = {};
    own_sleeper_.allow_forever();
    link_ = nullptr;
    stream_ = nullptr;
    watcher_ = nullptr;
    protocol_ = {};
    seen_ = owed_ = 0;
    announced_.reset();
    no_trailers_.clear();
    clear_for_reuse(out_head_);
    tunnel_output_ = std::string();
    is_done_ = head_sent_ = has_given_up_ = is_broken_off_ = is_malformed_ = false;
    is_cut_off_ = is_tunnel_ = is_finished_ = false;
}

bool Http2Stream::is_closed() const {
    return stream_ == nullptr || link_->is_over || link_->is_cut_off || stream_->is_closed();
}

// The body.

void Http2Stream::begin_body() {
    if (!protocol_.empty()) framing_.body = BodyKind::none;
    if (framing_.body == BodyKind::none && unannounced_.body != BodyKind::none) {
        framing_.body = unannounced_.body;
        framing_.expects_continue = unannounced_.expects_continue;
    }
    is_done_ = framing_.body == BodyKind::none ||
               (framing_.body == BodyKind::length && framing_.length == 0);
}

http::BodyBatch Http2Stream::take_body() {
    http::BodyBatch batch;
    if (!is_done_) {
        if (taken_.empty()) taken_.swap(arrived_);
        const std::string_view bytes = taken_.data();
        if (!bytes.empty()) {
            batch.pieces[0] = bytes;
            batch.count = 1;
        }
        batch.content_bytes = batch.consumed = bytes.size();
        if (announced_) *announced_ -= bytes.size();
        is_done_ = stream_->has_ended() && arrived_.empty();
        batch.bad = is_malformed_;
    }
    batch.done = is_done_;
    return batch;
}

void Http2Stream::drop_body(const http::BodyBatch& batch) {
    if (batch.consumed == 0) return;
    taken_.consume(batch.consumed);
    if (taken_.empty()) taken_.release();
    release_body(batch.consumed);
}

std::uint64_t Http2Stream::body_left() const {
    if (is_done_) return 0;
    return announced_.value_or(std::numeric_limits<std::uint64_t>::max());
}

bool Http2Stream::has_whole_body() const {
    return is_done_ || stream_->has_ended();
}

http::Fields& Http2Stream::trailers() {
    return stream_ != nullptr && stream_->has_ended() ? stream_->trailers() : no_trailers_;
}

BodyInput Http2Stream::read_body(Wakeup& wakeup) {
    if (is_malformed_) return BodyInput::more;
    if (is_closed()) return BodyInput::left;
    if (!arrived_.empty() || stream_->has_ended()) return BodyInput::more;
    watcher_ = &wakeup;
    return BodyInput::nothing;
}

void Http2Stream::release_body(std::size_t bytes) {
    owed_ += bytes;
    BodyBudget& bodies = link_->bodies;
    bodies.drop(*this, bytes);
    if (bodies.has_room(*this)) {
        grant();
    } else {
        bodies.wait(*this);
    }
}

void Http2Stream::grant() {
    if (owed_ == 0 || stream_ == nullptr) return;
    link_->server.consume(*stream_, std::exchange(owed_, 0));
    if (link_->server.wants_write()) link_->write_later();
    on_input();  // from now on the client's time runs
}

void Http2Stream::give_way() {
    if (!is_closed()) link_->server.reset(*stream_, NGHTTP2_ENHANCE_YOUR_CALM);
    const std::size_t dropped = arrived_.size();
    arrived_.release();
    if (dropped > 0) link_->bodies.drop(*this, dropped);
    link_->write_later();
    on_end();
}

void Http2Stream::count_body_for(const std::optional<IpAddress>& client) {
    if (!is_done_ && stream_ != nullptr) {
        link_->bodies.use(*this, link_->bodies.account_of(client));
    }
}

bool Http2Stream::lacks_room() const {
    return is_waiting() || (!is_closed() && !link_->server.may_send(*stream_));
}

// The client.

bool Http2Stream::has_left(Wakeup& wakeup) {
    watcher_ = &wakeup;
    return !is_open();
}

bool Http2Stream::is_cut_off() const {
    return is_cut_off_ || link_->is_cut_off;
}

// The answer.

std::string& Http2Stream::begin_head(int status) {
    status_ = status;
    out_head_.clear();
    return out_head_;
}

IoStatus Http2Stream::send_interim() {
    if (is_closed()) return IoStatus::failed;
    link_->server.send_interim(*stream_, status_, out_head_);
    link_->gather(out_head_.size());
    return IoStatus::ok;
}

void Http2Stream::end_head(BodyKind body, std::optional<std::uint64_t> length) {
    const bool is_streamed = body == BodyKind::chunked || body == BodyKind::until_close;
    if (!is_streamed && length) {
        out_head_ += "Content-Length: ";
        append_number(*length, out_head_);
        out_head_ += "\r\n";
    }
    if (sends_hsts()) out_head_ += *arrival().hsts_line;
}

void Http2Stream::send_head(bool has_body) {
    head_sent_ = true;
    link_->server.send_head(*stream_, status_, out_head_, has_body);
}

IoStatus Http2Stream::send(const http::BodyBatch& batch, const http::Fields& trailers) {
    if (is_closed()) return IoStatus::failed;
    const bool has_trailers = batch.done && !trailers.empty();
    if (!head_sent_) {
        const bool has_body = !batch.done || batch.content_bytes > 0 || has_trailers;
        send_head(has_body);
        if (!has_body || (batch.content_bytes == 0 && !batch.done)) {
            link_->gather(out_head_.size());
            return IoStatus::ok;
        }
    } else if (batch.content_bytes == 0 && !batch.done) {
        return IoStatus::ok;
    }
    return offer(batch.view(), batch.done, has_trailers ? &trailers : nullptr);
}

IoStatus Http2Stream::send_all(std::string_view content) {
    if (is_closed()) return IoStatus::failed;
    send_head(!content.empty());
    if (content.empty()) {
        link_->gather(out_head_.size());
        return IoStatus::ok;
    }
    out_piece_[0] = content;
    return offer(out_piece_, true, nullptr);
}

IoStatus Http2Stream::offer(std::span<const std::string_view> pieces, bool is_last,
                            const http::Fields* trailers) {
    link_->server.offer(*stream_, pieces, is_last, trailers);
    link_->gather(stream_->offered_bytes() + out_head_.size());
    return try_rest();
}

IoStatus Http2Stream::try_rest() const {
    if (!stream_->is_sent() && is_closed()) return IoStatus::failed;
    return stream_->is_taking() ? IoStatus::ok : IoStatus::would_block;
}

void Http2Stream::give_up() {
    has_given_up_ = true;
    link_->server.reset(*stream_, NGHTTP2_INTERNAL_ERROR);
    link_->write_later();
}

void Http2Stream::reset() {
    if (is_closed()) return;
    link_->server.reset(*stream_, NGHTTP2_INTERNAL_ERROR);
    link_->write_later();
    on_end();
}

void Http2Stream::cut_off() {
    is_cut_off_ = true;
    reset();
}

// For the connection.

bool Http2Stream::add_bytes(std::string_view bytes) {
    if (!has_account()) link_->bodies.use(*this, link_->account());
    if (!link_->bodies.hold(*this, bytes.size())) return false;
    arrived_.append(bytes);
    on_input();
    return true;
}

void Http2Stream::on_input() {
    if (watcher_ != nullptr) watcher_->wake_later();
}

void Http2Stream::on_end() {
    on_input();
    own_sleeper_.wakeup().wake_later();
}

void Http2Stream::finish(bool has_failed) {
    watcher_ = nullptr;
    arrived_.release();
    taken_.release();
    if (stream_ != nullptr) {
        if (is_broken_off_ || has_failed) link_->server.reset(*stream_, NGHTTP2_INTERNAL_ERROR);
        link_->server.release(*stream_);
        stream_ = nullptr;
    }
    link_->bodies.leave(*this);
    link_->write_later();
}

// Http2Stream: bytes both ways in place of an answer (RFC 8441).
IoStatus Http2Stream::send_switch() {
    if (is_closed()) return IoStatus::failed;
    if (sends_hsts()) out_head_ += *arrival().hsts_line;
    send_head(true);
    link_->gather(out_head_.size());
    return IoStatus::ok;
}

// A tunnel may last for days: what the message took is given back.
void Http2Stream::become_tunnel() {
    is_tunnel_ = true;
    head_ = http::RequestHead();
    free_text(out_head_);
}

std::string_view Http2Stream::take_bytes() {
    seen_ = arrived_.size();
    return arrived_.data();
}

void Http2Stream::drop_bytes(std::size_t bytes) {
    if (bytes == 0) return;
    seen_ -= bytes;
    drop_tunnel(arrived_, bytes);
    release_body(bytes);
}

TunnelInput Http2Stream::read_bytes(Wakeup& wakeup) {
    if (arrived_.size() > seen_) return TunnelInput::more;
    if (is_closed()) return TunnelInput::failed;
    if (stream_->has_ended()) return TunnelInput::end;
    watcher_ = &wakeup;
    return TunnelInput::nothing;
}

IoResult Http2Stream::send_bytes(std::string_view bytes, Wakeup& wakeup) {
    if (is_closed()) return {IoStatus::failed};
    watcher_ = &wakeup;
    if (!stream_->is_taking()) return {IoStatus::would_block};
    tunnel_output_.assign(bytes.substr(0, kTunnelPortion));
    const std::size_t sent = tunnel_output_.size();
    out_piece_[0] = tunnel_output_;
    if (offer(out_piece_, false, nullptr) == IoStatus::ok) free_text(tunnel_output_);
    return {IoStatus::ok, sent};
}

IoStatus Http2Stream::finish_sending(Wakeup& wakeup) {
    if (is_finished_) return IoStatus::ok;
    if (is_closed()) return IoStatus::failed;
    watcher_ = &wakeup;
    if (!stream_->is_taking()) return IoStatus::would_block;
    is_finished_ = true;
    offer({}, true, nullptr);
    return IoStatus::ok;
}

void Http2Link::gather(std::size_t bytes) {
    write_later();
    if (!connection->writable()) return;
    const bool is_large = bytes > BufferPool::kSmall / 2;
    const std::span<char> room = output.space(is_large ? BufferPool::kLarge : BufferPool::kSmall);
    if (room.size() < h2::kGatherRoomMin) return;
    gather_into(room, clock.now());
}

bool Http2Link::gather_into(std::span<char> room, SteadyTime now) {
    const std::size_t bytes = server.gather(room, now, events);
    output.commit(bytes);
    tell_streams();
    return bytes > 0;
}

const BodyBudget::AccountPtr& Http2Link::account() {
    if (!body_account) body_account = bodies.account_of(address);
    return body_account;
}

void Http2Link::tell_streams() {
    for (const h2::ServerEvent& event : events) {
        if (event.stream == nullptr || event.stream->owner == nullptr) continue;
        Http2Stream& stream = *static_cast<Http2Stream*>(event.stream->owner);
        if (event.kind == h2::ServerEvent::Kind::drained) {
            stream.on_drained();
        } else {
            stream.on_end();
        }
    }
    events.clear();
}

void Http2Resources::use(const config::Config& config) {
    const config::Http2& http2 = config.http2;
    const auto& requests = config.limits_on_requests;
    settings = {.streams = http2.streams,
                .stream_window = http2.stream_window,
                .connection_window = http2.connection_window,
                .cookie_crumbs = http2.cookie_crumbs,
                .abuse = {.burst = http2.abuse_burst, .per = http2.abuse_per},
                .head = {requests.header_bytes, requests.headers, requests.uri_bytes},
                .head_time = config.timeouts.request_head,
                .connect_protocol =
                    std::any_of(config.routes.begin(), config.routes.end(),
                                [](const config::Route& one) { return one.takes_websockets; })};
    bodies.set_bound(http2.buffered);
}

std::unique_ptr<Http2Stream> Http2Resources::take(Http2Link& link, h2::ServerStream* stream) {
    std::unique_ptr<Http2Stream> taken;
    if (free_.empty()) {
        taken = std::make_unique<Http2Stream>(executor_, deadlines_, buffers_);
    } else {
        taken = std::move(free_.back());
        free_.pop_back();
    }
    taken->begin(link, stream);
    return taken;
}

void Http2Resources::give_back(std::unique_ptr<Http2Stream> stream) {
    stream->end();
    if (free_.size() < kKept) free_.push_back(std::move(stream));
}

}  // namespace tidegate::client

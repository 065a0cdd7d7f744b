// Http2Stream: bytes both ways in place of an answer (RFC 8441).
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "client/http2_link.hpp"
#include "client/http2_stream.hpp"

namespace tidegate::client {

namespace {

// What a tunnel sends at a time.
constexpr std::size_t kTunnelPortion = 16'384;

}  // namespace

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

}  // namespace tidegate::client

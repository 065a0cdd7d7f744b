#include "client/http1_stream.hpp"

#include <array>
#include <cstddef>
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
    clear(out_head_);
    clear(out_tail_);
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

}  // namespace tidegate::client

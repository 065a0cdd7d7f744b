#include "upstream/http2_stream.hpp"

#include "base/text.hpp"
#include "h2/fields.hpp"

namespace tidegate::upstream {

namespace {

// A request that has waited so long on a connection on which nothing comes is no accident.
constexpr std::chrono::seconds kSilence{5};

}  // namespace

void Http2Stream::open(Server& server, Http2ConnectionPtr connection) {
    server_ = &server;
    connection_ = std::move(connection);
    is_reused_ = connection_->attach(*this);
    is_evicted_ = is_cancelled_ = is_unsent_ = false;
    taken_.release();
}

void Http2Stream::release() {
    if (!connection_) return;
    watcher_ = sender_ = nullptr;
    if (h2::ClientStream* const stream = std::exchange(stream_, nullptr)) {
        connection_->client().release(*stream);
    }
    arrived_.release();
    connection_->detach(*this);
    connection_ = nullptr;
    server_ = nullptr;
}

void Http2Stream::reset() {
    taken_.release();
    clear_for_reuse(method_);
    clear_for_reuse(target_);
    clear_for_reuse(out_head_);
}

bool Http2Stream::is_lost() const {
    return is_cancelled_ || connection_->is_over() || (stream_ != nullptr && stream_->is_closed());
}

bool Http2Stream::is_forlorn(SteadyTime now) const {
    return stream_ != nullptr && !has_answered() && connection_->reads() == reads_ &&
           now - began_ >= kSilence;
}

// The request.

std::string& Http2Stream::begin_head(std::string_view method, std::string_view path,
                                     std::string_view query) {
    method_ = method;
    target_.assign(path).append(query);
    out_head_.clear();
    return out_head_;
}

void Http2Stream::end_head(http::BodyKind body, std::optional<std::uint64_t> length) {
    out_body_ = body;
    if (body == http::BodyKind::chunked || !length) return;
    out_head_ += "Content-Length: ";
    append_number(*length, out_head_);
    out_head_ += "\r\n";
}

IoStatus Http2Stream::send(const http::BodyBatch& batch, const http::Fields& trailers) {
    const bool has_trailers = batch.done && !trailers.empty();
    if (stream_ == nullptr) {
        const bool is_empty = batch.done && batch.content_bytes == 0 && !has_trailers;
        const bool has_body = out_body_ != http::BodyKind::none && !is_empty;
        const IoStatus status = begin(has_body);
        if (status != IoStatus::ok || !has_body) return status;
    }
    if (is_lost()) return IoStatus::failed;
    if (batch.content_bytes == 0 && !batch.done) {
        // The head goes alone: the server may have to speak first.
        connection_->gather(out_head_.size());
        return is_lost() ? IoStatus::failed : IoStatus::ok;
    }
    out_pieces_ = batch.pieces;  // the batch may be a copy that goes
    connection_->client().offer(*stream_, {out_pieces_.data(), batch.count}, batch.done,
                                has_trailers ? &trailers : nullptr);
    connection_->gather(stream_->offered_bytes() + out_head_.size());
    return progress();
}

IoStatus Http2Stream::begin(bool has_body) {
    if (is_lost()) return IoStatus::failed;
    if (connection_->client().is_leaving()) {
        is_unsent_ = true;
        return IoStatus::failed;
    }
    const bool is_tls = connection_->tls() != nullptr;
    stream_ = &connection_->client().begin({method_, is_tls ? "https" : "http", target_}, out_head_,
                                           has_body);
    stream_->owner = this;
    began_ = steady_now();
    reads_ = connection_->reads();
    if (stream_->is_closed()) return IoStatus::failed;
    if (!has_body) connection_->gather(out_head_.size());
    return IoStatus::ok;
}

// The state of what was offered last.
IoStatus Http2Stream::progress() const {
    if (stream_->is_sent()) return IoStatus::ok;
    if (is_lost()) return IoStatus::failed;
    return stream_->is_taking() ? IoStatus::ok : IoStatus::would_block;
}

Task<IoStatus> Http2Stream::send_rest(Sleeper& sleeper, std::chrono::milliseconds patience) {
    sleeper.allow(patience);
    std::size_t left = stream_->offered_bytes();
    for (;;) {
        const IoStatus status = progress();
        if (status != IoStatus::would_block) {
            sender_ = nullptr;
            co_return status;
        }
        if (sleeper.expired()) {
            // Each byte that the server takes begins its time anew.
            if (stream_->offered_bytes() == left) break;
            left = stream_->offered_bytes();
            sleeper.allow(patience);
        }
        sender_ = &sleeper.wakeup();
        co_await sleeper.sleep();
    }
    // The offered bytes go with their owner: none of them may be sent any more.
    sender_ = nullptr;
    cancel();
    co_return IoStatus::failed;
}

void Http2Stream::cancel() {
    is_cancelled_ = true;
    if (stream_ != nullptr && !connection_->is_over()) {
        connection_->client().cancel(*stream_);
        connection_->write_later();
    }
    on_end();
}

// The answer.

Http2Stream::Head Http2Stream::read_head(Wakeup& wakeup) {
    if (stream_ != nullptr && stream_->malformed() == h2::Malformed::none &&
        stream_->next_head() != nullptr) {
        return Head::complete;
    }
    if (stream_ == nullptr || is_lost()) return Head::broken;
    watcher_ = &wakeup;
    return Head::nothing;
}

void Http2Stream::add_bytes(std::string_view bytes) {
    arrived_.append(bytes);
    on_input();
}

http::BodyBatch Http2Stream::take_body() {
    http::BodyBatch batch;
    if (taken_.empty()) taken_.swap(arrived_);
    const std::string_view bytes = taken_.data();
    if (!bytes.empty()) {
        batch.pieces[0] = bytes;
        batch.count = 1;
    }
    batch.content_bytes = batch.consumed = bytes.size();
    batch.done = stream_->has_ended() && arrived_.empty();
    return batch;
}

void Http2Stream::drop_body(const http::BodyBatch& batch) {
    if (batch.consumed == 0) return;
    taken_.consume(batch.consumed);
    if (taken_.empty()) taken_.release();
    if (!connection_ || connection_->is_over()) return;
    connection_->client().consume(*stream_, batch.consumed);
    if (connection_->client().wants_write()) connection_->write_later();
}

Http2Stream::Body Http2Stream::read_body(Wakeup& wakeup) {
    if (!arrived_.empty() || stream_->has_ended()) return Body::more;
    if (is_lost()) return Body::cut_off;
    watcher_ = &wakeup;
    return Body::nothing;
}

}  // namespace tidegate::upstream

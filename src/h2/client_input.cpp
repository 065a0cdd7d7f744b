// Client: the bytes of the server.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "h2/client.hpp"

namespace tidegate::h2 {

using Kind = ClientEvent::Kind;

// While a header block comes, nothing else can come on the connection (RFC 9113 section 4.3), so
// that it must not come byte by byte for as long as the answers of all streams may take.
void Client::follow_block(std::string_view bytes) {
    while (!bytes.empty()) {
        const FrameHeads::Step step = heads_.next(bytes);
        bytes.remove_prefix(step.bytes);
        const bool begins = step.found && (heads_.head().type == NGHTTP2_HEADERS ||
                                           heads_.head().type == NGHTTP2_PUSH_PROMISE);
        if (begins) block_due_ = now_ + settings_.head_time;
    }
    if (!heads_.is_in_block()) block_due_ = Time::max();
}

ClientStream* Client::find(std::uint32_t id) {
    if (id == 0) return nullptr;
    auto* const known = static_cast<ClientStream*>(
        nghttp2_session_get_stream_user_data(session_, static_cast<std::int32_t>(id)));
    return known;
}

void Client::tell(Kind kind, ClientStream& stream, std::string_view bytes) {
    if (!stream.is_released_) events_->push_back({kind, &stream, bytes});
}

void Client::note_settings() {
    has_settings_ = true;
    settings_due_ = Time::max();
}

// The block of a stream that no request has is decoded, for what it does to HPACK's table, and
// dropped.
void Client::begin_block(std::uint32_t id, bool is_end) {
    block_ = nullptr;
    block_of_ = is_ending_ ? nullptr : find(id);
    if (block_of_ == nullptr || block_of_->is_closed()) return;
    ClientStream& stream = *block_of_;
    stream.has_answered_ = true;
    if (!stream.has_head_) {
        block_ = &stream.head_block_;
        return block_->begin_response(rules_);
    }
    if (!is_end || stream.is_in_trailers_) return reset_for(stream, Malformed::trailers);
    stream.is_in_trailers_ = true;
    block_ = &stream.trailer_block_;
    block_->begin_trailers(rules_);
}

void Client::add_field(std::string_view name, std::string_view value) {
    if (block_ == nullptr) return;
    block_->add(name, value);
    if (block_->list_bytes() > kHeadBytesFactor * settings_.head.bytes) {
        block_ = nullptr;
        return end_with(NGHTTP2_ENHANCE_YOUR_CALM);
    }
    const Malformed malformed = block_->malformed();
    if (malformed != Malformed::none) reset_for(*block_of_, malformed);
}

void Client::end_block(bool is_end) {
    if (std::exchange(block_, nullptr) == nullptr) return;
    ClientStream& stream = *block_of_;
    if (stream.is_in_trailers_) return end_trailers(stream);
    constexpr int kFinal = 200;
    if (!stream.head_block_.end_response(stream.head_)) {
        return reset_for(stream, stream.head_block_.malformed());
    }
    if (stream.head_.status < kFinal) return end_interim(stream, is_end);
    if (http::response_framing(stream.head_, stream.is_to_head_, stream.framing_) !=
        http::FramingFault::none) {
        return reset_for(stream, Malformed::length);
    }
    if (stream.framing_.body == http::BodyKind::until_close) {
        stream.framing_.body = http::BodyKind::chunked;
    }
    stream.has_head_ = true;
    tell(Kind::head, stream);
    if (is_end) end_answer(stream);
}

// The stream keeps its block for the next head.
void Client::end_interim(ClientStream& stream, bool is_end) {
    if (is_end || ++stream.interim_count_ > kInterimMax) return reset_for(stream, Malformed::order);
    if (stream.interim_.size() == kInterimKept) return;
    auto interim = std::make_unique<ClientStream::Interim>();
    std::swap(interim->block, stream.head_block_);
    interim->block.end_response(interim->head);
    stream.interim_.push_back(std::move(interim));
    tell(Kind::head, stream);
}

void Client::end_trailers(ClientStream& stream) {
    stream.trailer_block_.end_trailers(stream.trailers_);
    const Malformed malformed = stream.trailer_block_.malformed();
    if (malformed != Malformed::none) return reset_for(stream, malformed);
    end_answer(stream);
}

void Client::add_body(std::uint32_t id, std::string_view bytes) {
    ClientStream* const stream = find(id);
    if (stream == nullptr || stream->is_closed() || stream->is_released_ || is_ending_) {
        nghttp2_session_consume_connection(session_, bytes.size());
        return;
    }
    stream->unconsumed_ += bytes.size();
    if (!stream->has_head_) return reset_for(*stream, Malformed::order);
    if (bytes.empty()) return;
    if (stream->framing_.body == http::BodyKind::none) return reset_for(*stream, Malformed::order);
    const bool is_bounded = stream->framing_.body == http::BodyKind::length;
    const std::uint64_t left = is_bounded ? stream->framing_.length - stream->body_bytes_
                                          : std::numeric_limits<std::uint64_t>::max();
    const std::size_t taken = std::min<std::uint64_t>(left, bytes.size());
    stream->body_bytes_ += taken;
    if (taken > 0) tell(Kind::body, *stream, bytes.substr(0, taken));
    if (taken < bytes.size()) reset_for(*stream, Malformed::length);
}

void Client::end_answer(ClientStream& stream) {
    if (stream.is_closed() || is_ending_) return;
    if (!stream.has_head_) return reset_for(stream, Malformed::order);
    if (stream.framing_.body == http::BodyKind::length &&
        stream.body_bytes_ != stream.framing_.length) {
        return reset_for(stream, Malformed::length);
    }
    stream.has_ended_ = true;
    tell(Kind::end, stream);
}

void Client::reset_for(ClientStream& stream, Malformed malformed) {
    block_ = nullptr;
    stream.malformed_ = malformed;
    submit_reset(stream, NGHTTP2_PROTOCOL_ERROR);
    tell(Kind::reset, stream);
}

// The server has said that it takes no more requests, or the head is larger than nghttp2 sends.
void Client::note_unsent(std::uint32_t id) {
    ClientStream* const stream = find(id);
    if (stream != nullptr) note_unprocessed(*stream);
}

// Streams above the number of a GOAWAY are closed as refused ones are.
void Client::note_unprocessed(ClientStream& stream) const {
    stream.is_unprocessed_ = true;
    stream.is_behind_others_ = last_taken_ > 0 && stream.id_ > last_taken_;
}

void Client::close(std::uint32_t id, std::uint32_t error) {
    ClientStream* const stream = find(id);
    if (stream == nullptr || stream->is_closed_) return;
    if (stream == block_of_) {
        // nghttp2 reports no more of a block whose stream is gone.
        block_of_ = nullptr;
        block_ = nullptr;
    }
    --open_;
    stream->is_closed_ = true;
    stream->body_.drop();
    if (error == NGHTTP2_REFUSED_STREAM && !stream->has_answered_ && !is_ending_) {
        note_unprocessed(*stream);
        stream->is_refused_ = id <= last_taken_;
    } else if (!stream->is_reset_ && !stream->is_unprocessed_) {
        stream->has_answered_ = true;  // by a reset
    }
    const bool is_whole = stream->has_ended_ && stream->is_sent_;
    if (!is_whole && !stream->is_reset_) tell(Kind::reset, *stream);
    if (stream->is_released_) finish_release(*stream);
}

}  // namespace tidegate::h2

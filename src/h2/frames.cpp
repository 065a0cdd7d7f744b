#include "h2/frames.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "h2/fields.hpp"

namespace tidegate::h2 {

namespace {

// The rest of a buffer is too small for a frame with less content than this.
constexpr std::size_t kWorthAFrame = 1'024;

}  // namespace

FrameHeads::Step FrameHeads::next(std::string_view bytes) {
    std::size_t at = std::min<std::size_t>(payload_left_, bytes.size());
    if (payload_left_ > 0) {
        payload_left_ -= static_cast<std::uint32_t>(at);
        if (payload_left_ > 0) return {at, false};
        end_payload();
    }
    do {
        const std::size_t part = std::min<std::size_t>(need_ - have_, bytes.size() - at);
        if (part > 0) std::memcpy(bytes_.data() + have_, bytes.data() + at, part);
        have_ = static_cast<std::uint8_t>(have_ + part);
        at += part;
        if (have_ < need_) return {at, false};
    } while (reads_on());
    read_head();
    return {at, true};
}

bool FrameHeads::reads_on() {
    constexpr std::array<unsigned char, 4> kPriority{0, 0, 5, NGHTTP2_PRIORITY};
    if (need_ > kFrameHeadBytes || std::memcmp(bytes_.data(), kPriority.data(), 4) != 0) {
        return false;
    }
    need_ = static_cast<std::uint8_t>(bytes_.size());
    return true;
}

void FrameHeads::read_head() {
    const auto& b = bytes_;
    const auto word = [&b](std::size_t at) {
        return (b[at] & 0x7fU) << 24U | static_cast<std::uint32_t>(b[at + 1]) << 16U |
               static_cast<std::uint32_t>(b[at + 2]) << 8U | b[at + 3];
    };
    const bool has_dependency = need_ > kFrameHeadBytes;
    head_ = {
        static_cast<std::uint32_t>(b[0]) << 16U | static_cast<std::uint32_t>(b[1]) << 8U | b[2],
        b[3], b[4], word(5), has_dependency ? word(kFrameHeadBytes) : 0};
    payload_left_ = head_.length - (need_ - static_cast<std::uint32_t>(kFrameHeadBytes));
    have_ = 0;
    need_ = kFrameHeadBytes;
    if (head_.type == NGHTTP2_HEADERS || head_.type == NGHTTP2_PUSH_PROMISE) {
        is_in_block_ = true;
        continuations_ = 0;
    } else if (head_.type == NGHTTP2_CONTINUATION) {
        ++continuations_;
    }
    if (payload_left_ == 0) end_payload();
}

void FrameHeads::end_payload() {
    const bool is_of_block = head_.type == NGHTTP2_HEADERS || head_.type == NGHTTP2_PUSH_PROMISE ||
                             head_.type == NGHTTP2_CONTINUATION;
    if (is_of_block && head_.has(NGHTTP2_FLAG_END_HEADERS)) is_in_block_ = false;
}

bool OutgoingBody::offer(std::span<const std::string_view> pieces, bool is_last,
                         const http::Fields* trailers) {
    assert(is_taken() && !is_last_);
    pieces_ = pieces;
    taken_of_piece_ = 0;
    for (const std::string_view piece : pieces) bytes_ += piece.size();
    is_last_ = is_last;
    if (is_last && trailers != nullptr && !trailers->empty()) trailers_ = trailers;
    if (!is_deferred_ || (is_taken() && !is_last)) return false;
    is_deferred_ = false;
    return true;
}

void OutgoingBody::drop() {
    pieces_ = {};
    bytes_ = 0;
    trailers_ = nullptr;
}

std::ptrdiff_t Output::gather(nghttp2_session* session, std::span<char> into) {
    room_ = into;
    std::ptrdiff_t bytes = 0;
    for (;;) {
        unsent_.remove_prefix(copy(unsent_));
        if (!unsent_.empty()) break;
        // Content goes past nghttp2's buffer: write() has put it into the room.
        const std::uint8_t* frame = nullptr;
        bytes = nghttp2_session_mem_send(session, &frame);
        if (bytes <= 0) break;
        unsent_ = text_of(frame, static_cast<std::size_t>(bytes));
    }
    const std::size_t filled = into.size() - room_.size();
    room_ = {};
    return bytes < 0 ? bytes : static_cast<std::ptrdiff_t>(filled);
}

std::size_t Output::copy(std::string_view bytes) {
    const std::size_t count = std::min(bytes.size(), room_.size());
    if (count > 0) std::memcpy(room_.data(), bytes.data(), count);
    room_ = room_.subspan(count);
    return count;
}

std::ptrdiff_t Output::take(nghttp2_session* session, std::uint32_t id, OutgoingBody& body,
                            std::size_t max, std::uint32_t& flags, bool& is_drained) {
    if (body.bytes_ == 0 && !body.is_last_) {
        body.is_deferred_ = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (room_.size() < kFrameHeadBytes + std::min(body.bytes_, kWorthAFrame)) {
        return NGHTTP2_ERR_PAUSE;
    }
    const std::size_t bytes = std::min({max, body.bytes_, room_.size() - kFrameHeadBytes});
    body.is_cut_small_ = bytes == max && bytes < body.bytes_ && bytes < kSmallFrame;
    flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (body.is_last_ && bytes == body.bytes_) {
        const bool had_trailers = body.trailers_ != nullptr;
        flags |= NGHTTP2_DATA_FLAG_EOF;
        if (submit_trailers(session, id, body)) flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        // Else write() reports the failure.
        is_drained = bytes == 0 && had_trailers;
    }
    return static_cast<std::ptrdiff_t>(bytes);
}

bool Output::submit_trailers(nghttp2_session* session, std::uint32_t id, OutgoingBody& body) {
    const http::Fields* const trailers = std::exchange(body.trailers_, nullptr);
    if (trailers == nullptr) return false;
    fields_.set_trailers(*trailers);
    if (fields_.list().empty()) return false;
    nghttp2_submit_trailer(session, static_cast<std::int32_t>(id), fields_.list().data(),
                           fields_.list().size());
    return true;
}

// The room is large enough: take() has seen to it.
void Output::write(OutgoingBody& body, std::string_view frame_head, std::size_t bytes,
                   bool& is_drained) {
    copy(frame_head);
    const bool had_any = body.bytes_ > 0;
    body.bytes_ -= bytes;
    while (bytes > 0) {
        const std::string_view piece =
            body.pieces_.front().substr(body.taken_of_piece_).substr(0, bytes);
        copy(piece);
        bytes -= piece.size();
        body.taken_of_piece_ += piece.size();
        if (body.taken_of_piece_ < body.pieces_.front().size()) break;
        body.pieces_ = body.pieces_.subspan(1);
        body.taken_of_piece_ = 0;
    }
    is_drained = had_any && body.is_taken();
}

}  // namespace tidegate::h2

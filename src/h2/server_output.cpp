// Server: what is sent to the client.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>

#include "h2/answer_fields.hpp"
#include "h2/server.hpp"

namespace tidegate::h2 {

namespace {

// What is left of a buffer is no place for a frame of less content than this.
constexpr std::size_t kWorthAFrame = 1'024;

}  // namespace

std::size_t Server::gather(std::span<char> into, Time now, EventList& events) {
    enter(now, events);
    if (has_failed_) return 0;
    room_ = into;
    for (;;) {
        unsent_.remove_prefix(copy_out(unsent_));
        if (!unsent_.empty()) break;
        // Content goes past nghttp2's buffer: write_data() has put it into the room.
        const std::uint8_t* frame = nullptr;
        const auto bytes = nghttp2_session_mem_send(session_, &frame);
        if (bytes < 0) fail();
        if (bytes <= 0) break;
        unsent_ = {reinterpret_cast<const char*>(frame), static_cast<std::size_t>(bytes)};
    }
    const std::size_t filled = into.size() - room_.size();
    room_ = {};
    return filled;
}

bool Server::wants_write() const {
    return !has_failed_ && (!unsent_.empty() || nghttp2_session_want_write(session_) != 0);
}

std::size_t Server::copy_out(std::string_view bytes) {
    const std::size_t count = std::min(bytes.size(), room_.size());
    if (count > 0) std::memcpy(room_.data(), bytes.data(), count);
    room_ = room_.subspan(count);
    return count;
}

// How much of what was offered makes the next DATA frame, of at most `max` bytes.
long Server::take(Stream& stream, std::size_t max, std::uint32_t& flags) {
    if (stream.offered_bytes_ == 0 && !stream.is_last_offered_) {
        stream.is_deferred_ = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (room_.size() < kFrameHeadBytes + std::min(stream.offered_bytes_, kWorthAFrame)) {
        return NGHTTP2_ERR_PAUSE;
    }
    const std::size_t bytes =
        std::min({max, stream.offered_bytes_, room_.size() - kFrameHeadBytes});
    stream.is_cut_small_ = bytes == max && bytes < stream.offered_bytes_ && bytes < kSmallFrame;
    flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream.is_last_offered_ && bytes == stream.offered_bytes_) {
        const bool had_trailers = stream.answer_trailers_ != nullptr;
        flags |= NGHTTP2_DATA_FLAG_EOF;
        if (takes_trailers(stream)) flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        // Else write_data() tells.
        if (bytes == 0 && had_trailers) tell({.kind = Event::Kind::drained, .stream = &stream});
    }
    return static_cast<long>(bytes);
}

bool Server::takes_trailers(Stream& stream) {
    if (stream.answer_trailers_ == nullptr) return false;
    AnswerFields& fields = pool_.answer_fields();
    fields.set_trailers(*stream.answer_trailers_);
    stream.answer_trailers_ = nullptr;
    if (fields.list().empty()) return false;
    nghttp2_submit_trailer(session_, static_cast<std::int32_t>(stream.id_), fields.list().data(),
                           fields.list().size());
    return true;
}

// The room is large enough: take() has seen to it.
void Server::write_data(Stream& stream, std::string_view frame_head, std::size_t bytes) {
    copy_out(frame_head);
    const bool had_any = stream.offered_bytes_ > 0;
    stream.offered_bytes_ -= bytes;
    while (bytes > 0) {
        const std::string_view piece =
            stream.pieces_.front().substr(stream.taken_of_piece_).substr(0, bytes);
        copy_out(piece);
        bytes -= piece.size();
        stream.taken_of_piece_ += piece.size();
        if (stream.taken_of_piece_ < stream.pieces_.front().size()) break;
        stream.pieces_ = stream.pieces_.subspan(1);
        stream.taken_of_piece_ = 0;
    }
    if (had_any && stream.is_taking()) {
        tell({.kind = Event::Kind::drained, .stream = &stream});
    }
}

void Server::data_was_sent(Stream& stream, std::uint32_t bytes) {
    may_ping_ = true;
    stream.updates_.data_was_sent(bytes, stream.is_cut_small_);
    updates_.data_was_sent(bytes, stream.is_cut_small_);
}

void Server::end_answer(Stream& stream) {
    stream.is_answered_ = true;
    budget_.give_one();
    if (!stream.is_released_ || stream.has_ended_) return;
    // The proxy does not read the rest of the body (RFC 9113 section 8.1).
    submit_reset(stream, NGHTTP2_NO_ERROR);
}

// nghttp2 resets by itself a stream whose client sends more than its window. All other resets for a
// fault of the client have been charged when they were decided upon.
void Server::reset_was_sent(std::uint32_t error) {
    has_reset_ = true;
    if (error == NGHTTP2_FLOW_CONTROL_ERROR) charge();
}

}  // namespace tidegate::h2

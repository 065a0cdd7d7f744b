// Server: the bytes of the client.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "h2/server.hpp"

namespace tidegate::h2 {

// nghttp2 gets a frame's head only once it has been judged, and the head is judged once nghttp2 has
// dealt with all that came before it: so it makes no difference how the bytes are cut.
void Server::receive(std::string_view bytes, Time now, EventList& events) {
    enter(now, events);
    std::size_t fed = 0;
    std::size_t seen = 0;
    while (seen < bytes.size() && !is_ending_ && !has_failed_) {
        const FrameHeads::Step step = heads_.next(bytes.substr(seen));
        seen += step.bytes;
        if (!step.found) break;
        feed(bytes.substr(fed, seen - 1 - fed));
        fed = seen - 1;
        if (heads_.head().type == NGHTTP2_HEADERS) block_due_ = now + settings_.head_time;
        judge(heads_.head());
    }
    feed(bytes.substr(fed));
    if (!heads_.is_in_block()) block_due_ = Time::max();
}

void Server::feed(std::string_view bytes) {
    if (bytes.empty() || is_ending_ || has_failed_) return;
    const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    // The bytes are not those that an HTTP/2 client sends first, or there is no memory left.
    if (nghttp2_session_mem_recv(session_, data, bytes.size()) < 0) fail();
}

void Server::judge(const FrameHead& head) {
    if (is_ending_ || has_failed_) return;
    const std::uint32_t error = violation(head);
    if (error != NGHTTP2_NO_ERROR) return end_with(error);
    if (!is_free(head)) charge();
    const bool is_message = head.type == NGHTTP2_DATA || head.type == NGHTTP2_HEADERS;
    if (head.type == NGHTTP2_HEADERS) last_id_ = std::max(last_id_, head.stream);
    if (head.type == NGHTTP2_RST_STREAM || (is_message && head.has(NGHTTP2_FLAG_END_STREAM))) {
        ended_ids_[next_ended_id_++ % ended_ids_.size()] = head.stream;
    }
}

// Frames that nghttp2 lets pass, because it remembers no stream that is closed and ignores
// priorities.
std::uint32_t Server::violation(const FrameHead& head) {
    switch (head.type) {
        case NGHTTP2_CONTINUATION:
            return heads_.continuations() > kContinuationsMax ? NGHTTP2_ENHANCE_YOUR_CALM
                                                              : NGHTTP2_NO_ERROR;
        case NGHTTP2_PRIORITY:
            return head.stream == 0 || (head.length == 5 && head.dependency == head.stream)
                       ? NGHTTP2_PROTOCOL_ERROR
                       : NGHTTP2_NO_ERROR;
        case NGHTTP2_DATA:
        case NGHTTP2_HEADERS:
            break;
        default:
            return NGHTTP2_NO_ERROR;
    }
    if (head.stream == 0 || head.stream > last_id_) return NGHTTP2_NO_ERROR;
    if (std::find(ended_ids_.begin(), ended_ids_.end(), head.stream) != ended_ids_.end()) {
        return NGHTTP2_STREAM_CLOSED;
    }
    // Trailers may be on their way to a stream that the server has reset, or that came too late for
    // its last GOAWAY. Else the number is older than the last.
    const bool may_be_late = has_reset_ || refuses_streams_ || find(head.stream) != nullptr;
    return head.type == NGHTTP2_HEADERS && !may_be_late ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_NO_ERROR;
}

// Whether the frame costs nothing of the abuse budget.
bool Server::is_free(const FrameHead& head) {
    switch (head.type) {
        case NGHTTP2_DATA:
            return head.length > 0 || head.has(NGHTTP2_FLAG_END_STREAM);
        case NGHTTP2_HEADERS:
            return head.length > 0 && (head.stream > last_id_ || find(head.stream) != nullptr);
        case NGHTTP2_CONTINUATION:
            return head.length > 0;
        case NGHTTP2_RST_STREAM: {
            const Stream* const stream = find(head.stream);
            return stream != nullptr && stream->is_answered_;
        }
        case NGHTTP2_SETTINGS:
            return head.has(NGHTTP2_FLAG_ACK) && settings_due_ != Time::max();
        case NGHTTP2_PING:
            if (head.has(NGHTTP2_FLAG_ACK)) return has_pinged_;
            // Clients measure the round trip by one PING for the DATA of each.
            return std::exchange(may_ping_, false);
        case NGHTTP2_WINDOW_UPDATE:
            return is_free_update(head);
        default:
            return false;
    }
}

bool Server::is_free_update(const FrameHead& head) {
    if (head.stream == 0) return updates_.take();
    Stream* const stream = find(head.stream);
    return stream != nullptr ? stream->updates_.take() : closed_updates_.take();
}

void Server::charge() {
    if (!budget_.take(now_)) end_with(NGHTTP2_ENHANCE_YOUR_CALM);
}

Stream* Server::find(std::uint32_t id) const {
    if (id == 0) return nullptr;
    return static_cast<Stream*>(
        nghttp2_session_get_stream_user_data(session_, static_cast<std::int32_t>(id)));
}

void Server::tell(Event event) {
    const bool is_released = event.stream != nullptr && event.stream->is_released_;
    if (!is_released) events_->push_back(event);
}

// False: the stream has been refused.
bool Server::begin_stream(std::uint32_t id) {
    const auto number = static_cast<std::int32_t>(id);
    if (refuses_streams_ || in_service_ >= settings_.streams) {
        has_reset_ = true;
        nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, number, NGHTTP2_REFUSED_STREAM);
        if (refuses_streams_) return false;
        charge();
        tell({.kind = Event::Kind::refused, .error = NGHTTP2_REFUSED_STREAM});
        return false;
    }
    // All take turns by frame; the priorities that the client asks for (RFC 9218) are ignored.
    const nghttp2_extpri in_turns{NGHTTP2_EXTPRI_DEFAULT_URGENCY, 1};
    nghttp2_session_change_extpri_stream_priority(session_, number, &in_turns, 1);
    if (++streams_begun_ == kStreamsOfConnection) drain(now_);
    trailers_of_ = nullptr;  // which may have been those of a stream that is reset meanwhile
    block_stream_ = pool_.take();
    block_stream_->id_ = id;
    block_ = &block_stream_->head_block_;
    block_->begin_request(rules_);
    return true;
}

bool Server::begin_trailers(Stream& stream, bool is_end) {
    if (stream.is_closed()) return false;
    if (!is_end || stream.is_in_trailers_) {
        reset_for(stream, Malformed::trailers);
        return false;
    }
    stream.is_in_trailers_ = true;
    trailers_of_ = &stream;
    block_ = &stream.trailer_block_;
    block_->begin_trailers(rules_);
    return true;
}

// False: the rest of the block is decoded, for what it does to HPACK's table, and dropped.
bool Server::add_field(std::string_view name, std::string_view value) {
    if (block_ == nullptr) return false;
    block_->add(name, value);
    if (block_->list_bytes() > kHeadBytesFactor * settings_.head.bytes) {
        end_with(NGHTTP2_ENHANCE_YOUR_CALM);
        return false;
    }
    const Malformed malformed = block_->malformed();
    if (malformed == Malformed::none) return true;
    refuse_block(malformed);
    return false;
}

void Server::refuse_block(Malformed malformed) {
    block_ = nullptr;
    if (Stream* const stream = std::exchange(trailers_of_, nullptr)) {
        return reset_for(*stream, malformed);
    }
    has_reset_ = true;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE,
                              static_cast<std::int32_t>(block_stream_->id_),
                              NGHTTP2_PROTOCOL_ERROR);
    pool_.give_back(std::move(block_stream_));
    charge();
    tell({.kind = Event::Kind::malformed, .error = NGHTTP2_PROTOCOL_ERROR, .malformed = malformed});
}

void Server::end_head(bool is_end) {
    if (!block_stream_) return;
    Stream& stream = *block_stream_;
    stream.head_fault_ = stream.head_block_.end_request(stream.head_, stream.protocol_);
    Malformed malformed = stream.head_block_.malformed();
    if (malformed == Malformed::none && stream.head_fault_ == http::HeadFault::none) {
        stream.announced_ = announced_length(stream.head_.fields);
        if (is_end && stream.announced_.value_or(0) > 0) malformed = Malformed::length;
    }
    if (malformed != Malformed::none) return refuse_block(malformed);
    block_ = nullptr;
    streams_.push_back(*block_stream_.release());
    nghttp2_session_set_stream_user_data(session_, static_cast<std::int32_t>(stream.id_), &stream);
    stream.has_body_ = !is_end;
    stream.is_in_service_ = true;
    ++in_service_;
    ++held_;
    tell({.kind = Event::Kind::request, .stream = &stream});
    if (is_end) end_request(stream);
}

void Server::end_trailers() {
    Stream* const stream = trailers_of_;
    if (stream == nullptr) return;
    stream->trailer_block_.end_trailers(stream->trailers_);
    const Malformed malformed = stream->trailer_block_.malformed();
    if (malformed != Malformed::none) return refuse_block(malformed);
    block_ = nullptr;
    trailers_of_ = nullptr;
    end_request(*stream);
}

void Server::add_body(std::uint32_t id, std::string_view bytes) {
    Stream* const stream = find(id);
    if (stream == nullptr || stream->is_closed() || stream->is_released_) {
        nghttp2_session_consume_connection(session_, bytes.size());
        return;
    }
    stream->unconsumed_ += bytes.size();
    const std::uint64_t left =
        stream->announced_.value_or(std::numeric_limits<std::uint64_t>::max()) -
        stream->body_bytes_;
    const std::size_t taken = std::min<std::uint64_t>(left, bytes.size());
    stream->body_bytes_ += taken;
    if (taken > 0) {
        tell({.kind = Event::Kind::body, .stream = stream, .bytes = bytes.substr(0, taken)});
    }
    if (taken < bytes.size()) reset_for(*stream, Malformed::length);
}

void Server::end_request(Stream& stream) {
    // Bytes for a stream that is released are not counted.
    if (!stream.is_released_ && stream.announced_ && stream.body_bytes_ != *stream.announced_) {
        return reset_for(stream, Malformed::length);
    }
    stream.has_ended_ = true;
    tell({.kind = Event::Kind::end, .stream = &stream});
}

void Server::reset_for(Stream& stream, Malformed malformed) {
    submit_reset(stream, NGHTTP2_PROTOCOL_ERROR);
    charge();
    tell({.kind = Event::Kind::reset,
          .stream = &stream,
          .error = NGHTTP2_PROTOCOL_ERROR,
          .malformed = malformed});
}

void Server::close(std::uint32_t id, std::uint32_t error) {
    Stream* const stream = find(id);
    if (stream == nullptr) return;
    if (stream == trailers_of_) {
        // nghttp2 reports no more of a block whose stream is gone.
        trailers_of_ = nullptr;
        block_ = nullptr;
    }
    stream->is_closed_ = true;
    closed_updates_.add(stream->updates_);
    stream->body_.drop();
    if (stream->is_answered_ && stream->has_ended_) {
        // The client may ask for the next before the coroutine has ended.
        leave_service(*stream);
    } else if (!stream->is_reset_) {
        tell({.kind = Event::Kind::reset, .stream = stream, .error = error});
    }
    if (stream->is_released_) finish_release(*stream);
}

}  // namespace tidegate::h2

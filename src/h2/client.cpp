#include "h2/client.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tidegate::h2 {

namespace {

// nghttp2 counts a CONTINUATION once for each piece that its head comes in.
constexpr std::size_t kContinuationPiecesMax = std::size_t{2} * kContinuationsMax;

RequestRules rules_of_answers(const ClientSettings& settings) {
    RequestRules rules;
    rules.bounds = settings.head;
    return rules;
}

}  // namespace

http::ResponseHead* ClientStream::next_head() {
    if (!interim_.empty()) return &interim_.front()->head;
    return has_head_ ? &head_ : nullptr;
}

void ClientStream::forget() {
    SessionStream::forget();
    head_.fields.clear();
    framing_ = {};
    interim_.clear();
    interim_count_ = 0;
    malformed_ = Malformed::none;
    is_to_head_ = has_head_ = has_answered_ = false;
    is_unprocessed_ = is_refused_ = is_behind_others_ = is_too_large_ = false;
}

void ClientSession::set_options(nghttp2_option& option) {
    nghttp2_option_set_max_continuations(&option, kContinuationPiecesMax);
}

ClientSession::ClientSession(const ClientSettings& settings, StreamPool<ClientStream>& pool,
                             Time now)
    : Session(pool, rules_of_answers(settings), 0, now), settings_(settings) {
    const std::array<nghttp2_settings_entry, 3> entries{
        {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
         {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
          static_cast<std::uint32_t>(std::min<std::size_t>(settings_.head.bytes, UINT32_MAX))},
         {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}}};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, entries.data(), entries.size());
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kClientConnectionWindow);
}

// While a header block comes, nothing else can come on the connection (RFC 9113 section 4.3), so
// that it must not come byte by byte for as long as the answers of all streams may take.
void ClientSession::receive(std::string_view bytes, Time now, ClientEventList& events) {
    enter(now, events);
    if (bytes.empty() || is_ending_ || has_failed_) return;
    feed(bytes);
    while (!bytes.empty()) {
        const FrameHeads::Step step = heads_.next(bytes);
        bytes.remove_prefix(step.bytes);
        const bool begins = step.found && (heads_.head().type == NGHTTP2_HEADERS ||
                                           heads_.head().type == NGHTTP2_PUSH_PROMISE);
        if (begins) block_due_ = now_ + settings_.head_time;
    }
    if (!heads_.is_in_block()) block_due_ = Time::max();
}

std::uint32_t ClientSession::streams_max() const {
    if (!has_settings_) return settings_.streams;
    const std::uint32_t said =
        nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return std::min(said, settings_.streams_max);
}

std::uint32_t ClientSession::list_bytes_max() const {
    if (!has_settings_) return settings_.list_bytes;
    return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE);
}

bool ClientSession::has_room() const {
    return !is_leaving() && open_ < requests_max();
}

// By the time of the last call, which may only be too few.
std::uint32_t ClientSession::requests_max() const {
    return std::min(streams_max(), resets_.left(now_));
}

bool ClientSession::is_leaving() const {
    return has_failed_ || is_ending_ || nghttp2_session_check_request_allowed(session_) == 0;
}

ClientStream& ClientSession::begin(const PseudoFields& request, std::string_view lines,
                                   bool has_body) {
    ClientStream& stream = *pool_.take().release();
    streams_.push_back(stream);
    ++held_;
    stream.is_to_head_ = request.method == "HEAD";
    stream.body_.set_last(!has_body);
    OutgoingFields& fields = pool_.outgoing_fields();
    fields.set_request(request, lines);
    if (!fits(fields)) {
        stream.is_closed_ = stream.is_too_large_ = true;
        return stream;
    }
    const nghttp2_data_provider body = body_of(stream);
    const std::int32_t id =
        nghttp2_submit_request(session_, nullptr, fields.list().data(), fields.list().size(),
                               has_body ? &body : nullptr, &stream);
    if (id < 0) {
        stream.is_closed_ = stream.is_unprocessed_ = true;
    } else {
        stream.id_ = static_cast<std::uint32_t>(id);
        ++open_;
    }
    return stream;
}

// RFC 9113 section 6.5.2.
bool ClientSession::fits(const OutgoingFields& fields) const {
    const std::uint32_t max = list_bytes_max();
    return max == UINT32_MAX || fields.list_bytes() <= max;
}

void ClientSession::offer(ClientStream& stream, std::span<const std::string_view> pieces,
                          bool is_last, const http::Fields* trailers) {
    if (stream.is_closed()) return;
    if (trailers != nullptr && list_bytes_max() != UINT32_MAX) {
        OutgoingFields& fields = pool_.outgoing_fields();
        fields.set_trailers(*trailers);
        if (!fits(fields)) {
            stream.is_too_large_ = true;
            return submit_reset(stream, NGHTTP2_CANCEL);
        }
    }
    offer_body(stream, pieces, is_last, trailers);
}

void ClientSession::note_reset() {
    if (!resets_.take(now_) || resets_.left(now_) == 0) has_reset_many_ = true;
}

void ClientSession::finish() {
    if (is_ending_) return;
    is_ending_ = true;
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, nullptr, 0);
}

void ClientSession::note_sent(const nghttp2_frame& frame) {
    if (frame.hd.type != NGHTTP2_GOAWAY || frame.goaway.error_code == NGHTTP2_NO_ERROR ||
        error_ != NGHTTP2_NO_ERROR) {
        return;
    }
    // nghttp2 has ended the connection, for what the server did.
    error_ = frame.goaway.error_code;
    close_due_ = now_ + kLastWords;
    is_ending_ = true;
}

// The server has said that it takes no more requests, or the head is larger than nghttp2 sends.
void ClientSession::note_unsent(ClientStream& stream, const nghttp2_frame& frame) const {
    // Not trailers: what was before them has gone.
    if (frame.headers.cat == NGHTTP2_HCAT_REQUEST) note_unprocessed(stream);
}

// What the server sends.

// The block of a stream that no request has is decoded, for what it does to HPACK's table, and
// dropped.
bool ClientSession::begin_block(const nghttp2_frame& frame) {
    block_ = nullptr;
    block_of_ = is_ending_ ? nullptr : find(id_of(frame));
    if (block_of_ == nullptr || block_of_->is_closed()) return true;
    ClientStream& stream = *block_of_;
    stream.has_answered_ = true;
    if (stream.has_head_) {
        begin_trailers(stream, ends_stream(frame));
    } else {
        block_ = &stream.head_block_;
        block_->begin_response(rules_);
    }
    return true;
}

void ClientSession::end_head(ClientStream& stream, bool is_end) {
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
    tell({.kind = ClientEvent::Kind::head, .stream = &stream});
    if (is_end) end_message(stream);
}

// The stream keeps its block for the next head.
void ClientSession::end_interim(ClientStream& stream, bool is_end) {
    if (is_end || ++stream.interim_count_ > kInterimMax) return reset_for(stream, Malformed::order);
    if (stream.interim_.size() == kInterimKept) return;
    auto interim = std::make_unique<ClientStream::Interim>();
    std::swap(interim->block, stream.head_block_);
    interim->block.end_response(interim->head);
    stream.interim_.push_back(std::move(interim));
    tell({.kind = ClientEvent::Kind::head, .stream = &stream});
}

bool ClientSession::takes_body(ClientStream& stream, std::string_view bytes) {
    if (stream.has_head_ && (bytes.empty() || stream.framing_.body != http::BodyKind::none)) {
        return !bytes.empty();
    }
    reset_for(stream, Malformed::order);
    return false;
}

void ClientSession::end_message(ClientStream& stream) {
    if (stream.is_closed() || is_ending_) return;
    if (!stream.has_head_) return reset_for(stream, Malformed::order);
    const std::optional<std::uint64_t> length = stream.announced();
    if (length && stream.body_bytes_ != *length) return reset_for(stream, Malformed::length);
    stream.has_ended_ = true;
    tell({.kind = ClientEvent::Kind::end, .stream = &stream});
}

void ClientSession::reset_for(ClientStream& stream, Malformed malformed) {
    stream.malformed_ = malformed;
    submit_reset(stream, NGHTTP2_PROTOCOL_ERROR);
    tell({.kind = ClientEvent::Kind::reset,
          .malformed = malformed,
          .error = NGHTTP2_PROTOCOL_ERROR,
          .stream = &stream});
}

void ClientSession::note_received(const nghttp2_frame& frame) {
    if (frame.hd.type == NGHTTP2_SETTINGS && (frame.hd.flags & NGHTTP2_FLAG_ACK) == 0) {
        has_settings_ = true;
        settings_due_ = Time::max();
    } else if (frame.hd.type == NGHTTP2_GOAWAY) {
        const auto last = static_cast<std::uint32_t>(frame.goaway.last_stream_id);
        last_taken_ = std::min(last, last_taken_);
    }
}

// Streams above the number of a GOAWAY are closed as refused ones are.
void ClientSession::note_unprocessed(ClientStream& stream) const {
    stream.is_unprocessed_ = true;
    stream.is_behind_others_ = last_taken_ > 0 && stream.id_ > last_taken_;
}

void ClientSession::note_closed(ClientStream& stream, std::uint32_t error) {
    --open_;
    if (error == NGHTTP2_REFUSED_STREAM && !stream.has_answered_ && !is_ending_) {
        note_unprocessed(stream);
        stream.is_refused_ = stream.id_ <= last_taken_;
    } else if (!stream.is_reset_ && !stream.is_unprocessed_) {
        stream.has_answered_ = true;  // by a reset
    }
}

}  // namespace tidegate::h2

#include "h2/client.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <utility>

#include "h2/client_callbacks.hpp"
#include "h2/fields.hpp"
#include "h2/session.hpp"

namespace tidegate::h2 {

namespace {

RequestRules rules_of_answers(const ClientSettings& settings) {
    RequestRules rules;
    rules.bounds = settings.head;
    return rules;
}

}  // namespace

Client::Client(const ClientSettings& settings, ClientStreamPool& pool, Time now)
    : settings_(settings),
      rules_(rules_of_answers(settings)),
      pool_(pool),
      output_(pool.outgoing_fields()),
      now_(now),
      settings_due_(now + kSettingsTime) {
    session_ = ClientCallbacks::open(*this, memory_);
    const std::array<nghttp2_settings_entry, 3> entries{
        {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
         {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
          static_cast<std::uint32_t>(std::min<std::size_t>(settings_.head.bytes, UINT32_MAX))},
         {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}}};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, entries.data(), entries.size());
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kClientConnectionWindow);
}

Client::~Client() {
    nghttp2_session_del(session_);
    recycle();
    streams_.clear_and_dispose(
        [this](ClientStream* stream) { pool_.give_back(std::unique_ptr<ClientStream>(stream)); });
}

void Client::enter(Time now, ClientEventList& events) {
    now_ = now;
    events_ = &events;
    recycle();
}

void Client::recycle() {
    gone_.clear_and_dispose(
        [this](ClientStream* stream) { pool_.give_back(std::unique_ptr<ClientStream>(stream)); });
}

void Client::receive(std::string_view bytes, Time now, ClientEventList& events) {
    enter(now, events);
    if (bytes.empty() || is_ending_ || has_failed_) return;
    const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    if (nghttp2_session_mem_recv(session_, data, bytes.size()) < 0) has_failed_ = true;
    follow_block(bytes);
}

std::size_t Client::gather(std::span<char> into, Time now, ClientEventList& events) {
    enter(now, events);
    if (has_failed_) return 0;
    const std::ptrdiff_t bytes = output_.gather(session_, into);
    if (bytes < 0) has_failed_ = true;
    return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

bool Client::wants_write() const {
    return !has_failed_ && (!output_.is_empty() || nghttp2_session_want_write(session_) != 0);
}

std::uint32_t Client::streams_max() const {
    if (!has_settings_) return settings_.streams;
    const std::uint32_t said =
        nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return std::min(said, settings_.streams_max);
}

std::uint32_t Client::list_bytes_max() const {
    if (!has_settings_) return settings_.list_bytes;
    return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE);
}

bool Client::has_room() const {
    return !is_leaving() && open_ < requests_max();
}

// By the time of the last call, which may only be too few.
std::uint32_t Client::requests_max() const {
    return std::min(streams_max(), resets_.left(now_));
}

bool Client::is_leaving() const {
    return has_failed_ || is_ending_ || nghttp2_session_check_request_allowed(session_) == 0;
}

ClientStream& Client::begin(const RequestLine& request, std::string_view lines, bool has_body) {
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
    const nghttp2_data_provider body{{.ptr = &stream}, ClientCallbacks::read_data};
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
bool Client::fits(const OutgoingFields& fields) const {
    const std::uint32_t max = list_bytes_max();
    return max == UINT32_MAX || fields.list_bytes() <= max;
}

void Client::offer(ClientStream& stream, std::span<const std::string_view> pieces, bool is_last,
                   const http::Fields* trailers) {
    if (stream.is_closed()) return;
    if (trailers != nullptr && list_bytes_max() != UINT32_MAX) {
        OutgoingFields& fields = pool_.outgoing_fields();
        fields.set_trailers(*trailers);
        if (!fits(fields)) {
            stream.is_too_large_ = true;
            return submit_reset(stream, NGHTTP2_CANCEL);
        }
    }
    if (!stream.body_.offer(pieces, is_last, trailers)) return;
    nghttp2_session_resume_data(session_, static_cast<std::int32_t>(stream.id_));
}

void Client::consume(ClientStream& stream, std::size_t bytes) {
    assert(bytes <= stream.unconsumed_);
    stream.unconsumed_ -= bytes;
    give_credit(session_, stream.id_, stream.is_closed() || stream.has_ended_, bytes);
}

void Client::cancel(ClientStream& stream) {
    if (!stream.is_closed()) submit_reset(stream, NGHTTP2_CANCEL);
}

void Client::submit_reset(ClientStream& stream, std::uint32_t error) {
    if (!resets_.take(now_) || resets_.left(now_) == 0) has_reset_many_ = true;
    stream.is_reset_ = true;
    stream.body_.drop();
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, static_cast<std::int32_t>(stream.id_),
                              error);
}

void Client::release(ClientStream& stream) {
    assert(!stream.is_released_);
    if (stream.unconsumed_ > 0) {
        nghttp2_session_consume_connection(session_, std::exchange(stream.unconsumed_, 0));
    }
    stream.owner = nullptr;
    stream.is_released_ = true;
    --held_;
    if (stream.is_closed_) return finish_release(stream);
    if (!stream.is_reset_) submit_reset(stream, NGHTTP2_CANCEL);
}

void Client::finish_release(ClientStream& stream) {
    streams_.erase(streams_.iterator_to(stream));
    gone_.push_back(stream);
}

void Client::finish() {
    if (is_ending_) return;
    is_ending_ = true;
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, nullptr, 0);
}

void Client::end_with(std::uint32_t error) {
    if (is_ending_) return;
    is_ending_ = true;
    error_ = error;
    close_due_ = now_ + kLastWords;
    nghttp2_session_terminate_session(session_, error);
}

// nghttp2 has ended the connection, for what the server did.
void Client::note_error(std::uint32_t error) {
    if (error == NGHTTP2_NO_ERROR || error_ != NGHTTP2_NO_ERROR) return;
    error_ = error;
    close_due_ = now_ + kLastWords;
    is_ending_ = true;
}

void Client::tick(Time now, ClientEventList& events) {
    enter(now, events);
    if (now >= settings_due_) {
        settings_due_ = Time::max();
        end_with(NGHTTP2_SETTINGS_TIMEOUT);
    }
    if (now >= block_due_) {
        block_due_ = Time::max();
        end_with(NGHTTP2_ENHANCE_YOUR_CALM);
    }
    // The server takes no more bytes now.
    if (now >= close_due_) {
        close_due_ = Time::max();
        has_failed_ = true;
    }
}

bool Client::is_done() const {
    if (has_failed_) return true;
    return output_.is_empty() && nghttp2_session_want_read(session_) == 0 &&
           nghttp2_session_want_write(session_) == 0;
}

void Client::drop_memory() {
    assert(is_idle());
    recycle();
    memory_.drop_frame_buffer();
}

std::ptrdiff_t Client::take(ClientStream& stream, std::size_t max, std::uint32_t& flags) {
    bool is_drained = false;
    const auto bytes = output_.take(session_, stream.id_, stream.body_, max, flags, is_drained);
    if (is_drained) tell(ClientEvent::Kind::drained, stream);
    return bytes;
}

void Client::write_data(ClientStream& stream, std::string_view frame_head, std::size_t bytes) {
    bool is_drained = false;
    output_.write(stream.body_, frame_head, bytes, is_drained);
    if (is_drained) tell(ClientEvent::Kind::drained, stream);
}

http::ResponseHead* ClientStream::next_head() {
    if (!interim_.empty()) return &interim_.front()->head;
    return has_head_ ? &head_ : nullptr;
}

void ClientStream::forget() {
    owner = nullptr;
    id_ = 0;
    body_ = {};
    head_block_.clear();
    trailer_block_.clear();
    head_.fields.clear();
    framing_ = {};
    trailers_.clear();
    interim_.clear();
    interim_count_ = 0;
    body_bytes_ = 0;
    unconsumed_ = 0;
    malformed_ = Malformed::none;
    is_to_head_ = has_head_ = has_answered_ = has_ended_ = is_in_trailers_ = is_sent_ = false;
    is_unprocessed_ = is_refused_ = is_behind_others_ = false;
    is_too_large_ = is_reset_ = is_closed_ = is_released_ = false;
}

ClientStreamPool::ClientStreamPool() : outgoing_fields_(std::make_unique<OutgoingFields>()) {}

ClientStreamPool::~ClientStreamPool() = default;

std::unique_ptr<ClientStream> ClientStreamPool::take() {
    if (free_.empty()) return std::make_unique<ClientStream>();
    auto stream = std::move(free_.back());
    free_.pop_back();
    return stream;
}

void ClientStreamPool::give_back(std::unique_ptr<ClientStream> stream) {
    stream->forget();
    if (free_.size() < kKept) free_.push_back(std::move(stream));
}

// Client: the bytes of the server.
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

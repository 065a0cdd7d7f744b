#include "h2/server.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <utility>

#include "h2/callbacks.hpp"
#include "h2/fields.hpp"
#include "h2/session.hpp"

namespace tidegate::h2 {

namespace {

RequestRules rules_of(const Settings& settings, const Transport& transport) {
    return {settings.head, settings.cookie_crumbs, transport.is_https, transport.any_scheme,
            settings.connect_protocol};
}

}  // namespace

Server::Server(const Settings& settings, const Transport& transport, StreamPool& pool, Time now)
    : settings_(settings),
      rules_(rules_of(settings, transport)),
      pool_(pool),
      output_(pool.outgoing_fields()),
      heads_(NGHTTP2_CLIENT_MAGIC_LEN),
      budget_(settings.abuse),
      now_(now),
      settings_due_(now + kSettingsTime) {
    session_ = Callbacks::open(*this, memory_);
    announce();
}

Server::~Server() {
    nghttp2_session_del(session_);
    recycle();
    const auto give_back = [this](Stream* stream) {
        pool_.give_back(std::unique_ptr<Stream>(stream));
    };
    streams_.clear_and_dispose(give_back);
    if (block_stream_) pool_.give_back(std::move(block_stream_));
}

void Server::announce() {
    std::array<nghttp2_settings_entry, 5> entries{
        {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings_.streams},
         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings_.stream_window},
         {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
          static_cast<std::uint32_t>(std::min<std::size_t>(settings_.head.bytes, UINT32_MAX))},
         {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
         {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1}}};
    const std::size_t count = entries.size() - (settings_.connect_protocol ? 0 : 1);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, entries.data(), count);
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                          static_cast<std::int32_t>(settings_.connection_window));
}

void Server::enter(Time now, EventList& events) {
    now_ = now;
    events_ = &events;
    recycle();
}

void Server::recycle() {
    gone_.clear_and_dispose(
        [this](Stream* stream) { pool_.give_back(std::unique_ptr<Stream>(stream)); });
}

void Server::send_interim(Stream& stream, int status, std::string_view lines) {
    if (stream.is_closed()) return;
    OutgoingFields& fields = pool_.outgoing_fields();
    fields.set_head(status, lines);
    nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, static_cast<std::int32_t>(stream.id_),
                           nullptr, fields.list().data(), fields.list().size(), nullptr);
}

void Server::send_head(Stream& stream, int status, std::string_view lines, bool has_body) {
    if (stream.is_closed()) return;
    OutgoingFields& fields = pool_.outgoing_fields();
    fields.set_head(status, lines);
    nghttp2_data_provider body{{.ptr = &stream}, Callbacks::read_data};
    stream.body_.set_last(!has_body);
    nghttp2_submit_response(session_, static_cast<std::int32_t>(stream.id_), fields.list().data(),
                            fields.list().size(), has_body ? &body : nullptr);
}

void Server::offer(Stream& stream, std::span<const std::string_view> pieces, bool is_last,
                   const http::Fields* trailers) {
    if (stream.is_closed()) return;
    if (!stream.body_.offer(pieces, is_last, trailers)) return;
    nghttp2_session_resume_data(session_, static_cast<std::int32_t>(stream.id_));
}

void Server::consume(Stream& stream, std::size_t bytes) {
    assert(bytes <= stream.unconsumed_);
    stream.unconsumed_ -= bytes;
    give_credit(session_, stream.id_, stream.is_closed() || stream.has_ended_, bytes);
}

bool Server::may_send(const Stream& stream) const {
    const auto id = static_cast<std::int32_t>(stream.id_);
    return nghttp2_session_get_local_window_size(session_) > 0 &&
           nghttp2_session_get_stream_local_window_size(session_, id) > 0;
}

void Server::reset(Stream& stream, std::uint32_t error) {
    if (!stream.is_closed()) submit_reset(stream, error);
}

void Server::submit_reset(Stream& stream, std::uint32_t error) {
    stream.is_reset_ = true;
    has_reset_ = true;
    stream.body_.drop();
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, static_cast<std::int32_t>(stream.id_),
                              error);
}

// The answer's head cannot be sent: it is larger than nghttp2 sends.
void Server::give_up(Stream& stream) {
    if (stream.is_closed() || is_ending_) return;
    submit_reset(stream, NGHTTP2_INTERNAL_ERROR);
    tell({.kind = Event::Kind::reset, .stream = &stream, .error = NGHTTP2_INTERNAL_ERROR});
}

void Server::release(Stream& stream) {
    assert(!stream.is_released_);
    if (stream.unconsumed_ > 0) {
        nghttp2_session_consume_connection(session_, stream.unconsumed_);
        stream.unconsumed_ = 0;
    }
    stream.owner = nullptr;
    stream.is_released_ = true;
    --held_;
    if (stream.is_closed_) return finish_release(stream);
    if (stream.is_reset_) return;
    if (stream.is_answered_) {
        wait_for_end(stream);
    } else if (!stream.body_.is_last() || !stream.is_taking()) {
        submit_reset(stream, NGHTTP2_INTERNAL_ERROR);
    }
}

// The answer is out, and the rest of the request is dropped. A server may reset the stream at once
// (RFC 9113 section 8.1), but curl, for one, then loses the answer if it is about to send the last
// of its request: short bodies, and all calls of gRPC. So the client may end the request, unless
// its windows cannot hold the rest.
void Server::wait_for_end(Stream& stream) {
    if (stream.announced_ && *stream.announced_ - stream.body_bytes_ > settings_.stream_window) {
        return submit_reset(stream, NGHTTP2_NO_ERROR);
    }
    stream.reset_due_ = now_ + kRequestEnd;
    end_due_ = std::min(end_due_, stream.reset_due_);
}

void Server::reset_unended() {
    end_due_ = Time::max();
    for (Stream& stream : streams_) {
        if (stream.is_closed()) continue;
        if (stream.reset_due_ <= now_) {
            submit_reset(stream, NGHTTP2_NO_ERROR);
        } else {
            end_due_ = std::min(end_due_, stream.reset_due_);
        }
    }
}

void Server::finish_release(Stream& stream) {
    leave_service(stream);
    streams_.erase(streams_.iterator_to(stream));
    gone_.push_back(stream);
}

void Server::leave_service(Stream& stream) {
    if (stream.is_in_service_) --in_service_;
    stream.is_in_service_ = false;
}

void Server::drain(Time now) {
    if (is_draining_) return;
    is_draining_ = has_pinged_ = true;
    drain_due_ = now + kDrainStep;
    nghttp2_submit_shutdown_notice(session_);
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
}

void Server::finish() {
    if (refuses_streams_) return;
    is_draining_ = refuses_streams_ = true;
    has_pinged_ = false;
    drain_due_ = Time::max();
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                          nullptr, 0);
}

void Server::end_with(std::uint32_t error) {
    if (is_ending_) return;
    is_ending_ = true;
    error_ = error;
    close_due_ = now_ + kLastWords;
    nghttp2_session_terminate_session(session_, error);
}

void Server::tick(Time now, EventList& events) {
    enter(now, events);
    if (now >= close_due_) return fail();
    if (now >= drain_due_) finish();
    if (now >= end_due_) reset_unended();
    if (now >= settings_due_) {
        settings_due_ = Time::max();
        end_with(NGHTTP2_SETTINGS_TIMEOUT);
    }
    if (now >= block_due_) {
        block_due_ = Time::max();
        is_head_late_ = true;
        end_with(NGHTTP2_ENHANCE_YOUR_CALM);
    }
}

Time Server::deadline() const {
    if (is_ending_) return close_due_;
    return std::min({settings_due_, block_due_, drain_due_, end_due_});
}

bool Server::is_done() const {
    if (has_failed_) return true;
    return output_.is_empty() && nghttp2_session_want_read(session_) == 0 &&
           nghttp2_session_want_write(session_) == 0;
}

bool Server::is_abused() const {
    return error_ == NGHTTP2_ENHANCE_YOUR_CALM && !is_head_late_;
}

bool Server::is_idle() const {
    return streams_.empty() && block_ == nullptr && !wants_write();
}

void Server::drop_memory() {
    assert(is_idle());
    recycle();
    memory_.drop_frame_buffer();
}

void Stream::forget() {
    owner = nullptr;
    id_ = 0;
    head_.fields.clear();
    head_fault_ = http::HeadFault::none;
    protocol_ = {};
    head_block_.clear();
    trailer_block_.clear();
    trailers_.clear();
    announced_.reset();
    body_bytes_ = 0;
    unconsumed_ = 0;
    body_ = {};
    updates_ = {};
    reset_due_ = Time::max();
    is_in_trailers_ = has_body_ = has_ended_ = is_in_service_ = false;
    is_answered_ = is_reset_ = is_closed_ = is_released_ = false;
}

StreamPool::StreamPool() : outgoing_fields_(std::make_unique<OutgoingFields>()) {}

StreamPool::~StreamPool() = default;

std::unique_ptr<Stream> StreamPool::take() {
    if (free_.empty()) return std::make_unique<Stream>();
    auto stream = std::move(free_.back());
    free_.pop_back();
    return stream;
}

void StreamPool::give_back(std::unique_ptr<Stream> stream) {
    stream->forget();
    if (free_.size() < kKept) free_.push_back(std::move(stream));
}

// Server: the bytes of the client.

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

// Server: the bytes for the client.
std::size_t Server::gather(std::span<char> into, Time now, EventList& events) {
    enter(now, events);
    if (has_failed_) return 0;
    const std::ptrdiff_t bytes = output_.gather(session_, into);
    if (bytes < 0) fail();
    return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

bool Server::wants_write() const {
    return !has_failed_ && (!output_.is_empty() || nghttp2_session_want_write(session_) != 0);
}

// The size of the next DATA frame, of at most `max` bytes.
long Server::take(Stream& stream, std::size_t max, std::uint32_t& flags) {
    bool is_drained = false;
    const auto bytes = output_.take(session_, stream.id_, stream.body_, max, flags, is_drained);
    if (is_drained) tell({.kind = Event::Kind::drained, .stream = &stream});
    return bytes;
}

void Server::write_data(Stream& stream, std::string_view frame_head, std::size_t bytes) {
    bool is_drained = false;
    output_.write(stream.body_, frame_head, bytes, is_drained);
    if (is_drained) tell({.kind = Event::Kind::drained, .stream = &stream});
}

void Server::data_was_sent(Stream& stream, std::uint32_t bytes) {
    may_ping_ = true;
    stream.updates_.data_was_sent(bytes, stream.body_.is_cut_small());
    updates_.data_was_sent(bytes, stream.body_.is_cut_small());
}

void Server::end_answer(Stream& stream) {
    stream.is_answered_ = true;
    budget_.give_one();
    if (stream.is_released_ && !stream.has_ended_) wait_for_end(stream);
}

// nghttp2 resets by itself a stream whose client sends more than its window. All other resets for a
// fault of the client have been charged when they were decided upon.
void Server::reset_was_sent(std::uint32_t error) {
    has_reset_ = true;
    if (error == NGHTTP2_FLOW_CONTROL_ERROR) charge();
}

}  // namespace tidegate::h2

#include "h2/server.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tidegate::h2 {

namespace {

// Raises bounds of nghttp2 that would act before the session's own budget: its limit on resets is
// fixed, and it counts a CONTINUATION once for each piece that its head comes in.
constexpr std::uint64_t kUnbounded = 1'000'000'000;

RequestRules rules_of(const ServerSettings& settings, const Transport& transport) {
    return {settings.head, settings.cookie_crumbs, transport.is_https, transport.any_scheme,
            settings.connect_protocol};
}

}  // namespace

void ServerStream::forget() {
    SessionStream::forget();
    head_.fields.clear();
    head_fault_ = http::HeadFault::none;
    protocol_ = {};
    announced_.reset();
    updates_ = {};
    reset_due_ = Time::max();
    has_body_ = is_in_service_ = false;
}

void ServerSession::set_options(nghttp2_option& option) {
    nghttp2_option_set_stream_reset_rate_limit(&option, kUnbounded, kUnbounded);
    nghttp2_option_set_max_continuations(&option, kUnbounded);
}

ServerSession::ServerSession(const ServerSettings& settings, const Transport& transport,
                             StreamPool<ServerStream>& pool, Time now)
    : Session(pool, rules_of(settings, transport), NGHTTP2_CLIENT_MAGIC_LEN, now),
      settings_(settings),
      budget_(settings.abuse) {
    announce();
}

ServerSession::~ServerSession() {
    if (block_stream_) pool_.give_back(std::move(block_stream_));
}

void ServerSession::announce() {
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

void ServerSession::send_interim(ServerStream& stream, int status, std::string_view lines) {
    if (stream.is_closed()) return;
    OutgoingFields& fields = pool_.outgoing_fields();
    fields.set_head(status, lines);
    nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, static_cast<std::int32_t>(stream.id_),
                           nullptr, fields.list().data(), fields.list().size(), nullptr);
}

void ServerSession::send_head(ServerStream& stream, int status, std::string_view lines,
                              bool has_body) {
    if (stream.is_closed()) return;
    OutgoingFields& fields = pool_.outgoing_fields();
    fields.set_head(status, lines);
    const nghttp2_data_provider body = body_of(stream);
    stream.body_.set_last(!has_body);
    nghttp2_submit_response(session_, static_cast<std::int32_t>(stream.id_), fields.list().data(),
                            fields.list().size(), has_body ? &body : nullptr);
}

bool ServerSession::may_send(const ServerStream& stream) const {
    const auto id = static_cast<std::int32_t>(stream.id_);
    return nghttp2_session_get_local_window_size(session_) > 0 &&
           nghttp2_session_get_stream_local_window_size(session_, id) > 0;
}

void ServerSession::end_released(ServerStream& stream) {
    if (stream.is_sent_) {
        wait_for_end(stream);
    } else if (!stream.body_.is_last() || !stream.is_taking()) {
        submit_reset(stream, NGHTTP2_INTERNAL_ERROR);
    }
}

// The answer is out, and the rest of the request is dropped. A server may reset the stream at once
// (RFC 9113 section 8.1), but curl, for one, then loses the answer if it is about to send the last
// of its request: short bodies, and all calls of gRPC. So the client may end the request, unless
// its windows cannot hold the rest.
void ServerSession::wait_for_end(ServerStream& stream) {
    if (stream.announced_ && *stream.announced_ - stream.body_bytes_ > settings_.stream_window) {
        return submit_reset(stream, NGHTTP2_NO_ERROR);
    }
    stream.reset_due_ = now_ + kRequestEnd;
    end_due_ = std::min(end_due_, stream.reset_due_);
}

void ServerSession::reset_unended() {
    end_due_ = Time::max();
    for (ServerStream& stream : streams_) {
        if (stream.is_closed()) continue;
        if (stream.reset_due_ <= now_) {
            submit_reset(stream, NGHTTP2_NO_ERROR);
        } else {
            end_due_ = std::min(end_due_, stream.reset_due_);
        }
    }
}

void ServerSession::leave_service(ServerStream& stream) {
    if (stream.is_in_service_) --in_service_;
    stream.is_in_service_ = false;
}

void ServerSession::drain(Time now) {
    if (is_draining_) return;
    is_draining_ = has_pinged_ = true;
    drain_due_ = now + kDrainStep;
    nghttp2_submit_shutdown_notice(session_);
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
}

void ServerSession::finish() {
    if (refuses_streams_) return;
    is_draining_ = refuses_streams_ = true;
    has_pinged_ = false;
    drain_due_ = Time::max();
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                          nullptr, 0);
}

void ServerSession::look_at_times() {
    if (now_ >= drain_due_) finish();
    if (now_ >= end_due_) reset_unended();
}

bool ServerSession::is_abused() const {
    return error() == NGHTTP2_ENHANCE_YOUR_CALM && !is_head_late();
}

// What the client sends.

// nghttp2 gets a frame's head only once it has been judged, and the head is judged once nghttp2 has
// dealt with all that came before it: so it makes no difference how the bytes are cut.
void ServerSession::receive(std::string_view bytes, Time now, ServerEventList& events) {
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

void ServerSession::judge(const FrameHead& head) {
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
std::uint32_t ServerSession::violation(const FrameHead& head) const {
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
bool ServerSession::is_free(const FrameHead& head) {
    switch (head.type) {
        case NGHTTP2_DATA:
            return head.length > 0 || head.has(NGHTTP2_FLAG_END_STREAM);
        case NGHTTP2_HEADERS:
            return head.length > 0 && (head.stream > last_id_ || find(head.stream) != nullptr);
        case NGHTTP2_CONTINUATION:
            return head.length > 0;
        case NGHTTP2_RST_STREAM: {
            const ServerStream* const stream = find(head.stream);
            return stream != nullptr && stream->is_sent_;
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

bool ServerSession::is_free_update(const FrameHead& head) {
    if (head.stream == 0) return updates_.take();
    ServerStream* const stream = find(head.stream);
    return stream != nullptr ? stream->updates_.take() : closed_updates_.take();
}

void ServerSession::charge() {
    if (!budget_.take(now_)) end_with(NGHTTP2_ENHANCE_YOUR_CALM);
}

void ServerSession::charge_padding(const nghttp2_frame& frame) {
    // Nothing but padding is as good as empty.
    const bool is_padding = frame.hd.length > 0 && frame.hd.length == frame.data.padlen;
    if (is_padding && !ends_stream(frame)) charge();
}

// False: the stream has been refused, or has no more to say.
bool ServerSession::begin_block(const nghttp2_frame& frame) {
    if (frame.headers.cat == NGHTTP2_HCAT_REQUEST) return begin_stream(id_of(frame));
    ServerStream* const stream = find(id_of(frame));
    return stream != nullptr && !stream->is_closed() && begin_trailers(*stream, ends_stream(frame));
}

bool ServerSession::begin_stream(std::uint32_t id) {
    const auto number = static_cast<std::int32_t>(id);
    if (refuses_streams_ || in_service_ >= settings_.streams) {
        nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, number, NGHTTP2_REFUSED_STREAM);
        if (refuses_streams_) {
            has_reset_ = true;
        } else {
            note_refused();
        }
        return false;
    }
    // All take turns by frame; the priorities that the client asks for (RFC 9218) are ignored.
    const nghttp2_extpri in_turns{NGHTTP2_EXTPRI_DEFAULT_URGENCY, 1};
    nghttp2_session_change_extpri_stream_priority(session_, number, &in_turns, 1);
    if (++streams_begun_ == kStreamsOfConnection) drain(now_);
    block_stream_ = pool_.take();
    block_stream_->id_ = id;
    block_of_ = block_stream_.get();
    block_ = &block_stream_->head_block_;
    block_->begin_request(rules_);
    return true;
}

// One stream more than may be in service, or than was announced to a client that has not
// acknowledged it yet.
void ServerSession::note_refused() {
    has_reset_ = true;
    charge();
    tell({.kind = ServerEvent::Kind::refused, .error = NGHTTP2_REFUSED_STREAM});
}

void ServerSession::refuse_block(Malformed malformed) {
    if (block_of_ != block_stream_.get()) return reset_for(*block_of_, malformed);
    block_of_ = nullptr;
    has_reset_ = true;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE,
                              static_cast<std::int32_t>(block_stream_->id_),
                              NGHTTP2_PROTOCOL_ERROR);
    pool_.give_back(std::move(block_stream_));
    charge();
    tell({.kind = ServerEvent::Kind::malformed,
          .malformed = malformed,
          .error = NGHTTP2_PROTOCOL_ERROR});
}

void ServerSession::end_head(ServerStream& stream, bool is_end) {
    stream.head_fault_ = stream.head_block_.end_request(stream.head_, stream.protocol_);
    Malformed malformed = stream.head_block_.malformed();
    if (malformed == Malformed::none && stream.head_fault_ == http::HeadFault::none) {
        stream.announced_ = announced_length(stream.head_.fields);
        if (is_end && stream.announced_.value_or(0) > 0) malformed = Malformed::length;
    }
    if (malformed != Malformed::none) return refuse_block(malformed);
    streams_.push_back(*block_stream_.release());
    nghttp2_session_set_stream_user_data(session_, static_cast<std::int32_t>(stream.id_), &stream);
    stream.has_body_ = !is_end;
    stream.is_in_service_ = true;
    ++in_service_;
    ++held_;
    tell({.kind = ServerEvent::Kind::head, .stream = &stream});
    if (is_end) end_message(stream);
}

void ServerSession::end_message(ServerStream& stream) {
    // Bytes for a stream that is released are not counted.
    if (!stream.is_released_ && stream.announced_ && stream.body_bytes_ != *stream.announced_) {
        return reset_for(stream, Malformed::length);
    }
    stream.has_ended_ = true;
    tell({.kind = ServerEvent::Kind::end, .stream = &stream});
}

void ServerSession::reset_for(ServerStream& stream, Malformed malformed) {
    submit_reset(stream, NGHTTP2_PROTOCOL_ERROR);
    charge();
    tell({.kind = ServerEvent::Kind::reset,
          .malformed = malformed,
          .error = NGHTTP2_PROTOCOL_ERROR,
          .stream = &stream});
}

void ServerSession::note_received(const nghttp2_frame& frame) {
    if ((frame.hd.flags & NGHTTP2_FLAG_ACK) == 0) return;
    if (frame.hd.type == NGHTTP2_SETTINGS) settings_due_ = Time::max();
    // The client has had our warning: what it sent before has arrived.
    if (frame.hd.type == NGHTTP2_PING && has_pinged_) finish();
}

void ServerSession::note_closed(ServerStream& stream, std::uint32_t) {
    closed_updates_.add(stream.updates_);
    // The client may ask for the next before the coroutine has ended.
    if (stream.is_sent_ && stream.has_ended_) leave_service(stream);
}

// What the client gets.

void ServerSession::note_sent(const nghttp2_frame& frame) {
    if (frame.hd.type == NGHTTP2_RST_STREAM) {
        has_reset_ = true;
        // nghttp2 resets by itself a stream whose client sends more than its window. All other
        // resets for a fault of the client have been charged when they were decided upon.
        if (frame.rst_stream.error_code == NGHTTP2_FLOW_CONTROL_ERROR) charge();
    } else if (frame.hd.type == NGHTTP2_GOAWAY && frame.goaway.error_code != NGHTTP2_NO_ERROR &&
               error_ == NGHTTP2_NO_ERROR) {
        error_ = frame.goaway.error_code;
        is_ending_ = true;
    }
}

// The answer's head cannot be sent: it is larger than nghttp2 sends.
void ServerSession::note_unsent(ServerStream& stream, const nghttp2_frame&) {
    if (stream.is_closed() || is_ending_) return;
    submit_reset(stream, NGHTTP2_INTERNAL_ERROR);
    tell({.kind = ServerEvent::Kind::reset, .error = NGHTTP2_INTERNAL_ERROR, .stream = &stream});
}

void ServerSession::note_data(ServerStream& stream, std::size_t bytes) {
    const auto count = static_cast<std::uint32_t>(bytes);
    may_ping_ = true;
    stream.updates_.data_was_sent(count, stream.body_.is_cut_small());
    updates_.data_was_sent(count, stream.body_.is_cut_small());
}

void ServerSession::note_answered(ServerStream& stream) {
    budget_.give_one();
    if (stream.is_released_ && !stream.has_ended_) wait_for_end(stream);
}

}  // namespace tidegate::h2

#include "h2/server.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "h2/callbacks.hpp"
#include "h2/outgoing_fields.hpp"
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

}  // namespace tidegate::h2

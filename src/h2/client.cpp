#include "h2/client.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "h2/client_callbacks.hpp"
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

}  // namespace tidegate::h2

#include "integration/h2_callbacks.hpp"

#include <algorithm>
#include <cstring>

namespace tidegate::test {
namespace {

const std::uint8_t* bytes_of(const std::string& text) {
    return reinterpret_cast<const std::uint8_t*>(text.data());
}

// nghttp2 takes names and values that are not const, and copies them.
nghttp2_nv entry(const std::pair<std::string, std::string>& field) {
    return {const_cast<std::uint8_t*>(bytes_of(field.first)),
            const_cast<std::uint8_t*>(bytes_of(field.second)), field.first.size(),
            field.second.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

std::vector<nghttp2_nv> entries_of(const FieldList& fields) {
    std::vector<nghttp2_nv> entries;
    for (const auto& field : fields) entries.push_back(entry(field));
    return entries;
}

H2Client::Stream* H2Callbacks::stream(void* user, std::int32_t id) {
    auto& streams = client(user).streams_;
    const auto found = streams.find(id);
    return found == streams.end() ? nullptr : &found->second;
}

int H2Callbacks::begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (auto* const its = stream(user, frame->hd.stream_id)) its->head = {};
    return 0;
}

int H2Callbacks::header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                        std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                        std::uint8_t, void* user) {
    auto* const its = stream(user, frame->hd.stream_id);
    if (its == nullptr) return 0;
    const std::string text(value, value + value_size);
    if (std::string(name, name + name_size) == ":status") {
        its->head.start_line = "HTTP/2.0 " + text;
    } else {
        its->head.fields.emplace_back(std::string(name, name + name_size), text);
    }
    return 0;
}

void H2Callbacks::take_head(H2Client::Stream& stream) {
    if (stream.answer.has_head()) {
        stream.answer.trailers = std::move(stream.head.fields);
    } else if (stream.head.status() < 200) {
        stream.answer.interim.push_back(std::move(stream.head));
    } else {
        stream.answer.start_line = std::move(stream.head.start_line);
        stream.answer.fields = std::move(stream.head.fields);
    }
}

void H2Callbacks::note_end(H2Client::Stream& stream, const nghttp2_frame& frame) {
    if (frame.hd.type == NGHTTP2_RST_STREAM) {
        stream.answer.reset = frame.rst_stream.error_code;
        return;
    }
    if (frame.hd.type == NGHTTP2_HEADERS) take_head(stream);
    const bool may_end = frame.hd.type == NGHTTP2_HEADERS || frame.hd.type == NGHTTP2_DATA;
    if (may_end && (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) stream.answer.is_whole = true;
}

int H2Callbacks::frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& all = client(user);
    all.frames_.push_back(
        {frame->hd.type, frame->hd.flags, static_cast<std::uint32_t>(frame->hd.stream_id)});
    auto* const its = stream(user, frame->hd.stream_id);
    if (its != nullptr) note_end(*its, *frame);
    const bool is_ack = (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;
    switch (frame->hd.type) {
        case NGHTTP2_GOAWAY: {
            const auto& told = frame->goaway;
            all.goaways_.push_back(
                {told.last_stream_id, told.error_code,
                 std::string(told.opaque_data, told.opaque_data + told.opaque_data_len)});
            break;
        }
        case NGHTTP2_PING:
            all.pongs_ += is_ack ? 1 : 0;
            break;
        case NGHTTP2_SETTINGS:
            all.has_settings_ = all.has_settings_ || !is_ack;
            break;
        default:
            break;
    }
    return 0;
}

int H2Callbacks::data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                      std::size_t size, void* user) {
    auto* const its = stream(user, id);
    if (its == nullptr) return 0;
    its->answer.body.append(bytes, bytes + size);
    ++its->answer.chunks;
    return 0;
}

int H2Callbacks::close(nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
    auto* const its = stream(user, id);
    if (its == nullptr) return 0;
    its->is_closed = true;
    its->answer.broken = !its->answer.is_whole;
    return 0;
}

int H2Callbacks::not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    return close(nullptr, frame->hd.stream_id, 0, user);
}

int H2Callbacks::invalid(nghttp2_session*, const nghttp2_frame*, int error, void* user) {
    client(user).fault_ += std::string(nghttp2_strerror(error)) + "; ";
    return 0;
}

int H2Callbacks::explain(nghttp2_session*, int, const char* text, std::size_t size, void* user) {
    client(user).fault_ += std::string(text, size) + "; ";
    return 0;
}

ssize_t H2Callbacks::read(nghttp2_session* session, std::int32_t id, std::uint8_t* into,
                          std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                          void* user) {
    auto* const its = stream(user, id);
    if (its == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (its->unsent_size() == 0 && !its->is_finished) return NGHTTP2_ERR_DEFERRED;
    const std::size_t part = std::min(size, its->unsent_size());
    std::memcpy(into, its->unsent.data() + its->sent, part);
    its->sent += part;
    if (its->unsent_size() > 0) return static_cast<ssize_t>(part);
    its->unsent.clear();
    its->sent = 0;
    if (!its->is_finished) return static_cast<ssize_t>(part);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (!its->trailers.empty()) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        const auto entries = entries_of(its->trailers);
        nghttp2_submit_trailer(session, id, entries.data(), entries.size());
    }
    return static_cast<ssize_t>(part);
}

void H2Callbacks::set(nghttp2_session_callbacks* callbacks) {
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, close);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, not_sent);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, invalid);
    nghttp2_session_callbacks_set_error_callback2(callbacks, explain);
}

}  // namespace tidegate::test

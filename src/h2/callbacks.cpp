#include "h2/callbacks.hpp"

#include <new>
#include <string_view>

#include "h2/server.hpp"
#include "h2/session.hpp"

namespace tidegate::h2 {

namespace {

// Raises bounds of nghttp2 that would act before the Server's own budget: its limit on resets is
// fixed, and it counts a CONTINUATION once for each piece that its head comes in.
constexpr std::uint64_t kUnbounded = 1'000'000'000;

Server& server_of(void* server) {
    return *static_cast<Server*>(server);
}

}  // namespace

nghttp2_session* Callbacks::open(Server& server, Memory& memory) {
    nghttp2_session* session = nullptr;
    nghttp2_mem functions = memory_functions(memory);
    if (nghttp2_session_server_new3(&session, all(), &server, options(), &functions) != 0) {
        throw std::bad_alloc();
    }
    return session;
}

// Sessions copy their options.
nghttp2_session_callbacks* Callbacks::all() {
    static const auto made = [] {
        SessionCallbacks own = make_session_callbacks();
        nghttp2_session_callbacks* const callbacks = own.get();
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
        nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
        return own;
    }();
    return made.get();
}

nghttp2_option* Callbacks::options() {
    static const auto made = [] {
        SessionOptions option = make_session_options();
        nghttp2_option_set_stream_reset_rate_limit(option.get(), kUnbounded, kUnbounded);
        nghttp2_option_set_max_continuations(option.get(), kUnbounded);
        return option;
    }();
    return made.get();
}

int Callbacks::on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* server) {
    Server& self = server_of(server);
    bool goes_on = false;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        goes_on = self.begin_stream(id_of(*frame));
    } else if (Stream* const stream = self.find(id_of(*frame))) {
        goes_on = self.begin_trailers(*stream, ends_stream(*frame));
    }
    return goes_on ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

int Callbacks::on_header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t* name,
                         std::size_t name_bytes, const std::uint8_t* value, std::size_t value_bytes,
                         std::uint8_t, void* server) {
    const bool goes_on =
        server_of(server).add_field(text_of(name, name_bytes), text_of(value, value_bytes));
    return goes_on ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

int Callbacks::on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                       std::size_t count, void* server) {
    server_of(server).add_body(static_cast<std::uint32_t>(id), text_of(bytes, count));
    return 0;
}

int Callbacks::on_frame(nghttp2_session*, const nghttp2_frame* frame, void* server) {
    Server& self = server_of(server);
    switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
            if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
                self.end_head(ends_stream(*frame));
            } else {
                self.end_trailers();
            }
            break;
        case NGHTTP2_DATA: {
            // Nothing but padding is as good as empty.
            const bool is_padding = frame->hd.length > 0 && frame->hd.length == frame->data.padlen;
            if (is_padding && !ends_stream(*frame)) self.charge();
            Stream* const stream = self.find(id_of(*frame));
            if (stream != nullptr && ends_stream(*frame)) self.end_request(*stream);
            break;
        }
        case NGHTTP2_SETTINGS:
            if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) self.settings_due_ = Time::max();
            break;
        case NGHTTP2_PING:
            // The client has had our warning: what it sent before has arrived.
            if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 && self.has_pinged_) self.finish();
            break;
        default:
            break;
    }
    return 0;
}

int Callbacks::on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int error, void* server) {
    // More streams than were announced to a client that has not acknowledged it yet.
    if (error != NGHTTP2_ERR_REFUSED_STREAM) return 0;
    Server& self = server_of(server);
    self.has_reset_ = true;
    self.charge();
    self.tell({.kind = Event::Kind::refused, .error = NGHTTP2_REFUSED_STREAM});
    return 0;
}

int Callbacks::on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* server) {
    server_of(server).close(static_cast<std::uint32_t>(id), error);
    return 0;
}

int Callbacks::on_sent(nghttp2_session*, const nghttp2_frame* frame, void* server) {
    Server& self = server_of(server);
    Stream* const stream = self.find(id_of(*frame));
    switch (frame->hd.type) {
        case NGHTTP2_DATA:
            if (stream == nullptr) break;
            self.data_was_sent(*stream, static_cast<std::uint32_t>(frame->hd.length));
            [[fallthrough]];
        case NGHTTP2_HEADERS:
            if (stream != nullptr && ends_stream(*frame)) self.end_answer(*stream);
            break;
        case NGHTTP2_RST_STREAM:
            self.reset_was_sent(frame->rst_stream.error_code);
            break;
        case NGHTTP2_GOAWAY:
            if (frame->goaway.error_code != NGHTTP2_NO_ERROR && self.error_ == NGHTTP2_NO_ERROR) {
                self.error_ = frame->goaway.error_code;
                self.is_ending_ = true;
            }
            break;
        default:
            break;
    }
    return 0;
}

int Callbacks::on_not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* server) {
    Server& self = server_of(server);
    Stream* const stream = self.find(id_of(*frame));
    if (frame->hd.type == NGHTTP2_HEADERS && stream != nullptr) self.give_up(*stream);
    return 0;
}

ssize_t Callbacks::read_data(nghttp2_session*, std::int32_t, std::uint8_t*, std::size_t max,
                             std::uint32_t* flags, nghttp2_data_source* source, void* server) {
    return server_of(server).take(*static_cast<Stream*>(source->ptr), max, *flags);
}

int Callbacks::send_data(nghttp2_session*, nghttp2_frame*, const std::uint8_t* head,
                         std::size_t bytes, nghttp2_data_source* source, void* server) {
    server_of(server).write_data(*static_cast<Stream*>(source->ptr), text_of(head, kFrameHeadBytes),
                                 bytes);
    return 0;
}

}  // namespace tidegate::h2

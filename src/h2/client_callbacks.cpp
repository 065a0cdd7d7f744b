#include "h2/client_callbacks.hpp"

#include <new>
#include <string_view>

#include "h2/client.hpp"
#include "h2/frames.hpp"
#include "h2/session.hpp"

namespace tidegate::h2 {

namespace {

// nghttp2 counts a CONTINUATION once for each piece that its head comes in.
constexpr std::size_t kContinuationPiecesMax = std::size_t{2} * kContinuationsMax;

Client& client_of(void* client) {
    return *static_cast<Client*>(client);
}

}  // namespace

nghttp2_session* ClientCallbacks::open(Client& client, Memory& memory) {
    nghttp2_session* session = nullptr;
    nghttp2_mem functions = memory_functions(memory);
    if (nghttp2_session_client_new3(&session, all(), &client, options(), &functions) != 0) {
        throw std::bad_alloc();
    }
    return session;
}

// Sessions copy their options.
nghttp2_session_callbacks* ClientCallbacks::all() {
    static const auto made = [] {
        SessionCallbacks own = make_session_callbacks();
        nghttp2_session_callbacks* const callbacks = own.get();
        nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
        nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
        return own;
    }();
    return made.get();
}

nghttp2_option* ClientCallbacks::options() {
    static const auto made = [] {
        SessionOptions option = make_session_options();
        nghttp2_option_set_max_continuations(option.get(), kContinuationPiecesMax);
        return option;
    }();
    return made.get();
}

// nghttp2 refuses a push for good once the server has acknowledged our SETTINGS. Until then, which
// may be never, it queues a reset for each.
int ClientCallbacks::on_begin_frame(nghttp2_session*, const nghttp2_frame_hd* head, void* client) {
    const bool is_push = head->type == NGHTTP2_PUSH_PROMISE;
    return is_push && ++client_of(client).pushes_ > kPushesMax ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

int ClientCallbacks::on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* client) {
    client_of(client).begin_block(id_of(*frame), ends_stream(*frame));
    return 0;
}

int ClientCallbacks::on_header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t* name,
                               std::size_t name_bytes, const std::uint8_t* value,
                               std::size_t value_bytes, std::uint8_t, void* client) {
    client_of(client).add_field(text_of(name, name_bytes), text_of(value, value_bytes));
    return 0;
}

int ClientCallbacks::on_data(nghttp2_session*, std::uint8_t, std::int32_t id,
                             const std::uint8_t* bytes, std::size_t count, void* client) {
    client_of(client).add_body(static_cast<std::uint32_t>(id), text_of(bytes, count));
    return 0;
}

int ClientCallbacks::on_frame(nghttp2_session*, const nghttp2_frame* frame, void* client) {
    Client& self = client_of(client);
    switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
            self.end_block(ends_stream(*frame));
            break;
        case NGHTTP2_DATA: {
            ClientStream* const stream = self.find(id_of(*frame));
            if (stream != nullptr && ends_stream(*frame)) self.end_answer(*stream);
            break;
        }
        case NGHTTP2_SETTINGS:
            if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) self.note_settings();
            break;
        case NGHTTP2_GOAWAY:
            self.note_goaway(static_cast<std::uint32_t>(frame->goaway.last_stream_id));
            break;
        default:
            break;
    }
    return 0;
}

int ClientCallbacks::on_close(nghttp2_session*, std::int32_t id, std::uint32_t error,
                              void* client) {
    client_of(client).close(static_cast<std::uint32_t>(id), error);
    return 0;
}

int ClientCallbacks::on_sent(nghttp2_session*, const nghttp2_frame* frame, void* client) {
    Client& self = client_of(client);
    switch (frame->hd.type) {
        case NGHTTP2_DATA:
        case NGHTTP2_HEADERS:
            if (ClientStream* const stream = self.find(id_of(*frame))) {
                if (ends_stream(*frame)) stream->is_sent_ = true;
            }
            break;
        case NGHTTP2_GOAWAY:
            self.note_error(frame->goaway.error_code);
            break;
        default:
            break;
    }
    return 0;
}

int ClientCallbacks::on_not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* client) {
    // Not trailers: what was before them has gone.
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        client_of(client).note_unsent(id_of(*frame));
    }
    return 0;
}

ssize_t ClientCallbacks::read_data(nghttp2_session*, std::int32_t, std::uint8_t*, std::size_t max,
                                   std::uint32_t* flags, nghttp2_data_source* source,
                                   void* client) {
    return client_of(client).take(*static_cast<ClientStream*>(source->ptr), max, *flags);
}

int ClientCallbacks::send_data(nghttp2_session*, nghttp2_frame*, const std::uint8_t* head,
                               std::size_t bytes, nghttp2_data_source* source, void* client) {
    client_of(client).write_data(*static_cast<ClientStream*>(source->ptr),
                                 text_of(head, kFrameHeadBytes), bytes);
    return 0;
}

}  // namespace tidegate::h2

#include "h2/session.hpp"

#include <cstdlib>
#include <new>

namespace tidegate::h2 {

namespace {

constexpr std::size_t kRepliesUnsentMax = 10'000;  // to SETTINGS and PING
// The bound on a message to send. The head of the other side's message has bounds of its own.
constexpr std::size_t kSentHeadMax = 1'048'576;

}  // namespace

SessionOptions make_session_options() {
    nghttp2_option* option = nullptr;
    if (nghttp2_option_new(&option) != 0) throw std::bad_alloc();
    nghttp2_option_set_no_auto_window_update(option, 1);
    // FieldBlock, Server and Client hold messages to the rules, as strictly as in HTTP/1.
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, kRepliesUnsentMax);
    nghttp2_option_set_max_send_header_block_length(option, kSentHeadMax);
    return {option, nghttp2_option_del};
}

SessionCallbacks make_session_callbacks() {
    nghttp2_session_callbacks* callbacks = nullptr;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
    return {callbacks, nghttp2_session_callbacks_del};
}

nghttp2_mem memory_functions(Memory& memory) {
    return {
        &memory,
        [](std::size_t bytes, void* self) { return static_cast<Memory*>(self)->allocate(bytes); },
        [](void* block, void* self) { static_cast<Memory*>(self)->release(block); },
        [](std::size_t count, std::size_t bytes, void*) { return std::calloc(count, bytes); },
        [](void* block, std::size_t bytes, void* self) {
            return static_cast<Memory*>(self)->resize(block, bytes);
        }};
}

void give_credit(nghttp2_session* session, std::uint32_t id, bool is_stream_over,
                 std::size_t bytes) {
    if (is_stream_over) {
        nghttp2_session_consume_connection(session, bytes);
    } else {
        nghttp2_session_consume(session, static_cast<std::int32_t>(id), bytes);
    }
}

}  // namespace tidegate::h2

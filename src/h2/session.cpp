#include "h2/session.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace tidegate::h2 {

namespace {

constexpr std::size_t kRepliesUnsentMax = 10'000;  // to SETTINGS and PING
// The bound on a message to send. The head of the other side's message has bounds of its own.
constexpr std::size_t kSentHeadMax = 1'048'576;

// The frame buffer is the only block of this size that lives as long as its session: the largest
// payload, the head of a frame and one byte of padding. (Larger header blocks take more of them for
// a while.) A block of 16,384 bytes would be the table of streams, which is never to be dropped.
constexpr std::size_t kFrameBufferBytes = 16'384 + 9 + 1;
constexpr std::size_t kPage = 4'096;
constexpr std::size_t kFrameBufferPages = (kFrameBufferBytes + kPage - 1) / kPage * kPage;

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

void* Memory::allocate(std::size_t bytes) {
    if (bytes != kFrameBufferBytes || frame_buffer_ != nullptr) return std::malloc(bytes);
    frame_buffer_ = std::aligned_alloc(kPage, kFrameBufferPages);
    return frame_buffer_;
}

void Memory::release(void* block) {
    if (block == frame_buffer_) frame_buffer_ = nullptr;
    std::free(block);
}

// nghttp2 asks for the frame buffer by enlarging none.
void* Memory::resize(void* block, std::size_t bytes) {
    if (block == nullptr) return allocate(bytes);
    if (block == frame_buffer_) frame_buffer_ = nullptr;
    return std::realloc(block, bytes);
}

void Memory::drop_frame_buffer() {
    if (frame_buffer_ != nullptr) ::madvise(frame_buffer_, kFrameBufferPages, MADV_DONTNEED);
}

}  // namespace tidegate::h2

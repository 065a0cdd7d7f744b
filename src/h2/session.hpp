// What the sessions of nghttp2 of both sides are made with, and how its callbacks see frames.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace tidegate::h2 {

// Where a session of nghttp2 has its memory. Of the 25 KiB that an idle session holds, 16 are the
// buffer of the frame that it sent last; that one gets pages of its own, which an idle session
// gives back to the system.
//
// One for each session, which it outlives. One thread.
class Memory {
  public:
    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    // As malloc(), free() and realloc().
    void* allocate(std::size_t bytes);
    void release(void* block);
    void* resize(void* block, std::size_t bytes);

    // Gives the pages of the frame buffer back until the next frame is sent. Requires that the
    // session has no frame under way.
    void drop_frame_buffer();
    bool has_frame_buffer() const { return frame_buffer_ != nullptr; }

  private:
    void* frame_buffer_ = nullptr;
};

using SessionOptions = std::unique_ptr<nghttp2_option, decltype(&nghttp2_option_del)>;
using SessionCallbacks =
    std::unique_ptr<nghttp2_session_callbacks, decltype(&nghttp2_session_callbacks_del)>;

// Never null: without memory these throw std::bad_alloc.

// What both sides leave to nghttp2, and what they do themselves: windows, and the rules of HTTP
// about heads.
SessionOptions make_session_options();
SessionCallbacks make_session_callbacks();

// `memory` outlives the session.
nghttp2_mem memory_functions(Memory& memory);

// The other side may send as many bytes more: on the connection, and on stream `id` unless that is
// over, or the other side has ended it.
void give_credit(nghttp2_session* session, std::uint32_t id, bool is_stream_over,
                 std::size_t bytes);

inline std::string_view text_of(const std::uint8_t* bytes, std::size_t count) {
    return {reinterpret_cast<const char*>(bytes), count};
}
inline std::uint32_t id_of(const nghttp2_frame& frame) {
    return static_cast<std::uint32_t>(frame.hd.stream_id);
}
inline bool ends_stream(const nghttp2_frame& frame) {
    return (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
}

}  // namespace tidegate::h2

// Where a session of nghttp2 has its memory. Of the 25 KiB that an idle session holds, 16 are the
// buffer of the frame that it sent last; that one gets pages of its own, which an idle session
// gives back to the system.
//
// One for each session, which it outlives. One thread.
#pragma once

#include <cstddef>

namespace tidegate::h2 {

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

}  // namespace tidegate::h2

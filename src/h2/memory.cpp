#include "h2/memory.hpp"

#include <sys/mman.h>

#include <cstdlib>

namespace tidegate::h2 {

namespace {

// The frame buffer is the only block of this size that lives as long as its session: the largest
// payload, the head of a frame and one byte of padding. (Larger header blocks take more of them for
// a while.) A block of 16,384 bytes would be the table of streams, which is never to be dropped.
constexpr std::size_t kFrameBufferBytes = 16'384 + 9 + 1;
constexpr std::size_t kPage = 4'096;
constexpr std::size_t kFrameBufferPages = (kFrameBufferBytes + kPage - 1) / kPage * kPage;

}  // namespace

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

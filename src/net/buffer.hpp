// Flat buffers from a free list. An idle connection holds none.
//
// One pool a worker; buffers and pool belong to that thread.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace tidegate {

class BufferPool {
  public:
    static constexpr std::size_t kSmall = 16'384;  // a head and what comes with it
    static constexpr std::size_t kLarge = 65'536;  // a body that streams

    BufferPool() = default;
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;
    ~BufferPool();

    // A block of at least `size` bytes; `size` becomes what it has.
    char* take(std::size_t& size);
    void give(char* block, std::size_t size);

  private:
    static constexpr std::size_t kKept = 64;  // blocks of each size that wait for the next user

    std::array<std::vector<char*>, 2> free_;
};

// Bytes that were read and not yet consumed, in one piece.
class Buffer {
  public:
    explicit Buffer(BufferPool& pool) : pool_(&pool) {}
    ~Buffer() { release(); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    bool empty() const { return begin_ == end_; }
    std::size_t size() const { return end_ - begin_; }
    std::size_t capacity() const { return capacity_; }
    std::string_view data() const { return {block_ + begin_, end_ - begin_}; }

    // Room to read into. Takes a block if there is none; moves no byte, so views stay valid.
    std::span<char> space(std::size_t block_size = BufferPool::kSmall);
    void commit(std::size_t bytes) { end_ += bytes; }
    void consume(std::size_t bytes);

    // Moves what is there to the front, into a block of at least `capacity`. Views go stale.
    void make_room(std::size_t capacity);
    // Copies `bytes` behind what is there. Views may go stale.
    void append(std::string_view bytes);
    // Gives the block back.
    void release() {
        if (block_ != nullptr) give_back();
    }
    void swap(Buffer& other) noexcept;

  private:
    void give_back();

    BufferPool* pool_;
    char* block_ = nullptr;
    std::size_t capacity_ = 0;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

}  // namespace tidegate

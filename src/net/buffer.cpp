#include "net/buffer.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace tidegate {

BufferPool::~BufferPool() {
    for (auto& blocks : free_) {
        for (char* block : blocks) delete[] block;
    }
}

char* BufferPool::take(std::size_t& size) {
    if (size > kLarge) return new char[size];
    const bool large = size > kSmall;
    size = large ? kLarge : kSmall;
    auto& blocks = free_[large];
    if (blocks.empty()) return new char[size];
    char* block = blocks.back();
    blocks.pop_back();
    return block;
}

void BufferPool::give(char* block, std::size_t size) {
    const bool pooled = size == kSmall || size == kLarge;
    auto& blocks = free_[size == kLarge];
    if (pooled && blocks.size() < kKept) {
        blocks.push_back(block);
    } else {
        delete[] block;
    }
}

std::span<char> Buffer::space(std::size_t block_size) {
    if (block_ == nullptr) {
        capacity_ = block_size;
        block_ = pool_->take(capacity_);
    }
    return {block_ + end_, capacity_ - end_};
}

void Buffer::consume(std::size_t bytes) {
    assert(bytes <= size());
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
}

void Buffer::make_room(std::size_t capacity) {
    if (capacity <= capacity_) {
        if (begin_ > 0) std::memmove(block_, block_ + begin_, size());
    } else {
        char* block = pool_->take(capacity);
        if (block_ != nullptr) {
            std::memcpy(block, block_ + begin_, size());
            pool_->give(block_, capacity_);
        }
        block_ = block;
        capacity_ = capacity;
    }
    end_ -= begin_;
    begin_ = 0;
}

void Buffer::append(std::string_view bytes) {
    if (space().size() < bytes.size()) make_room(std::max(size() + bytes.size(), capacity_ * 2));
    std::memcpy(block_ + end_, bytes.data(), bytes.size());
    commit(bytes.size());
}

void Buffer::give_back() {
    pool_->give(block_, capacity_);
    block_ = nullptr;
    capacity_ = begin_ = end_ = 0;
}

void Buffer::swap(Buffer& other) noexcept {
    assert(pool_ == other.pool_);
    std::swap(block_, other.block_);
    std::swap(capacity_, other.capacity_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
}

}  // namespace tidegate

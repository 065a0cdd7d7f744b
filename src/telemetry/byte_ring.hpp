// A bounded queue of bytes between one thread that adds and one that takes, without a lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

namespace tidegate::telemetry {

class ByteRing {
  public:
    // The capacity is `bytes` rounded up to a power of two.
    explicit ByteRing(std::size_t bytes)
        : capacity_(std::bit_ceil(std::max<std::size_t>(bytes, 1))),
          bytes_(std::make_unique_for_overwrite<char[]>(capacity_)) {}

    std::size_t capacity() const { return capacity_; }

    // Producer: adds all of `data`, or nothing when there is no room.
    bool push(std::string_view data) {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        if (capacity_ - (head - tail_seen_) < data.size()) {
            tail_seen_ = tail_.load(std::memory_order_acquire);
            if (capacity_ - (head - tail_seen_) < data.size()) return false;
        }
        const std::size_t at = head & (capacity_ - 1);
        const std::size_t first = std::min(data.size(), capacity_ - at);
        std::memcpy(bytes_.get() + at, data.data(), first);
        if (first < data.size()) {
            std::memcpy(bytes_.get(), data.data() + first, data.size() - first);
        }
        head_.store(head + data.size(), std::memory_order_release);
        return true;
    }
    // Producer: an upper bound of the bytes that wait, from the last time that push() had to look.
    std::size_t used_at_most() const { return head_.load(std::memory_order_relaxed) - tail_seen_; }
    // Producer: how many bytes wait now.
    std::size_t used() {
        tail_seen_ = tail_.load(std::memory_order_acquire);
        return used_at_most();
    }

    // Consumer: the bytes that wait, oldest first, in two pieces because they may wrap around.
    // Valid until pop().
    std::array<std::string_view, 2> peek() const {
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        const std::size_t size = head_.load(std::memory_order_acquire) - tail;
        const std::size_t at = tail & (capacity_ - 1);
        const std::size_t first = std::min(size, capacity_ - at);
        return {std::string_view(bytes_.get() + at, first),
                std::string_view(bytes_.get(), size - first)};
    }
    // Consumer: gives the room of the oldest `bytes` back. Requires that many were peeked at.
    void pop(std::size_t bytes) {
        tail_.store(tail_.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
    }

  private:
    const std::size_t capacity_;
    const std::unique_ptr<char[]> bytes_;
    // The two sides on cache lines of their own. Positions only grow; they wrap with the type.
    alignas(64) std::atomic<std::size_t> head_{0};
    std::size_t tail_seen_ = 0;  // the producer's last look at tail_
    alignas(64) std::atomic<std::size_t> tail_{0};
};

}  // namespace tidegate::telemetry

// A table that grows while other threads read it and one writes its entries: no entry ever moves.
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <memory>
#include <vector>

namespace tidegate::telemetry {

// One thread at a time grows it; any thread may look at what is there.
template <class T>
class GrowingTable {
  public:
    using Entry = T;

    explicit GrowingTable(std::size_t capacity)
        : blocks_((capacity + kBlockSize - 1) / kBlockSize) {}

    // Requires size <= capacity; never shrinks. Entries begin as T{}.
    void grow(std::size_t size) {
        assert(size <= blocks_.size() * kBlockSize);
        while (owned_.size() * kBlockSize < size) {
            owned_.push_back(std::make_unique<Block>());
            blocks_[owned_.size() - 1].store(owned_.back().get(), std::memory_order_release);
        }
        if (size > this->size()) size_.store(size, std::memory_order_release);
    }

    std::size_t size() const { return size_.load(std::memory_order_acquire); }

    // Requires index < size().
    T& operator[](std::size_t index) {
        return blocks_[index / kBlockSize].load(std::memory_order_acquire)->at[index % kBlockSize];
    }
    const T& operator[](std::size_t index) const {
        return blocks_[index / kBlockSize].load(std::memory_order_acquire)->at[index % kBlockSize];
    }

  private:
    static constexpr std::size_t kBlockSize = 16;

    // Tables of several threads grow one after the other: what one writes must not share a cache
    // line with what another does.
    struct alignas(64) Block {
        std::array<T, kBlockSize> at{};
    };

    std::vector<std::atomic<Block*>> blocks_;  // by index; null: not there yet
    std::vector<std::unique_ptr<Block>> owned_;
    std::atomic<std::size_t> size_{0};
};

}  // namespace tidegate::telemetry

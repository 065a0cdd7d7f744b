#include "net/task.hpp"

#include <array>
#include <new>

namespace tidegate::detail {

namespace {

constexpr std::size_t kKept = 64;  // frames of each size that wait for the next user
#ifdef __SANITIZE_ADDRESS__
constexpr bool kKeeps = false;  // it sees only what is not kept
#else
constexpr bool kKeeps = true;
#endif

class Frames {
  public:
    constexpr Frames() = default;
    ~Frames() {
        for (List& list : lists_) {
            while (list.first != nullptr) ::operator delete(list.pop());
        }
    }
    Frames(const Frames&) = delete;
    Frames& operator=(const Frames&) = delete;

    void* take(std::size_t size) {
        const std::size_t units = (size + kUnit - 1) / kUnit;
        if (units < lists_.size() && lists_[units].first != nullptr) return lists_[units].pop();
        return ::operator new(units* kUnit);
    }
    void give(void* frame, std::size_t size) noexcept {
        const std::size_t units = (size + kUnit - 1) / kUnit;
        if (kKeeps && units < lists_.size() && lists_[units].count < kKept) {
            lists_[units].push(frame);
        } else {
            ::operator delete(frame);
        }
    }

  private:
    static constexpr std::size_t kUnit = 64;

    struct Free {
        Free* next;
    };
    struct List {
        Free* first = nullptr;
        std::size_t count = 0;

        void push(void* frame) {
            first = ::new (frame) Free{first};
            ++count;
        }
        void* pop() {
            --count;
            return std::exchange(first, first->next);
        }
    };

    std::array<List, 32> lists_;  // by size in units
};

thread_local Frames frames;

}  // namespace

void* take_frame(std::size_t size) {
    return frames.take(size);
}

void give_frame(void* frame, std::size_t size) noexcept {
    frames.give(frame, size);
}

}  // namespace tidegate::detail

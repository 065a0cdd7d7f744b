#include "net/task.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tidegate {

namespace {

constexpr std::size_t kKept = 64;  // frames of each size that wait for the next user
#ifdef __SANITIZE_ADDRESS__
constexpr bool kKeeps = false;  // AddressSanitizer sees only frames that are not kept
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

void tell_on_standard_error(std::string_view why) noexcept {
    std::fprintf(stderr, "tidegate: %.*s\n", static_cast<int>(why.size()), why.data());
}

std::atomic<EndReporter> tell_end{tell_on_standard_error};

const char* file_name(const boost::source_location& from) {
    const char* const slash = std::strrchr(from.file_name(), '/');
    return slash != nullptr ? slash + 1 : from.file_name();
}

}  // namespace

namespace detail {

void* take_frame(std::size_t size) {
    return frames.take(size);
}

void give_frame(void* frame, std::size_t size) noexcept {
    frames.give(frame, size);
}

}  // namespace detail

std::string message_of(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "an exception of an unknown kind";
    }
}

void set_end_reporter(EndReporter tell) {
    tell_end = tell;
}

// Writes into a buffer of its own, as there may be no memory left.
void end_program(const std::exception_ptr& failure, const boost::source_location& from) noexcept {
    std::array<char, 512> text{};
    const auto describe = [&](const char* what) {
        std::snprintf(
            text.data(), text.size(),
            "internal error: the task begun in %s:%u ended with: %s. The program stops, as "
            "it cannot run without this task",
            file_name(from), static_cast<unsigned>(from.line()), what);
    };
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        describe(error.what());
    } catch (...) {
        describe("an exception of an unknown kind");
    }
    tell_end.load()(text.data());
    std::abort();
}

}  // namespace tidegate

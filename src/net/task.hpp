// The coroutines of Tidegate.
//
// A Task runs when it is awaited, on the stack of its caller: one that never has to wait is a call
// that costs little more than any other. Where one waits, all that wait for it stop with it, and
// they go on, or are destroyed, as one. Single-threaded.
//
// end_program() handles exceptions that no part of the program expects, such as bugs and a lack of
// memory: it reports every one.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <boost/assert/source_location.hpp>

namespace tidegate {

namespace detail {

// Memory of frames, from a free list of the thread.
void* take_frame(std::size_t size);
void give_frame(void* frame, std::size_t size) noexcept;

// The part that the promises of all coroutines share.
struct Promise {
    static void* operator new(std::size_t size) { return take_frame(size); }
    static void operator delete(void* frame, std::size_t size) { give_frame(frame, size); }

    std::coroutine_handle<> root;  // the spawned coroutine, which owns this one
};

// The part that the promises of awaited coroutines share.
struct AwaitedPromise : Promise {
    struct End {
        static bool await_ready() noexcept { return false; }
        template <class Awaited>
        static std::coroutine_handle<> await_suspend(
            std::coroutine_handle<Awaited> ended) noexcept {
            const std::coroutine_handle<> parent = ended.promise().parent;
            return parent ? parent : std::noop_coroutine();
        }
        static void await_resume() noexcept {}
    };

    static std::suspend_always initial_suspend() noexcept { return {}; }
    static End final_suspend() noexcept { return {}; }
    void unhandled_exception() noexcept { failure = std::current_exception(); }

    std::coroutine_handle<> parent;  // resumes when this one has ended; none before it waits
    std::exception_ptr failure;
};

template <class T>
struct TaskPromise : AwaitedPromise {
    std::coroutine_handle<TaskPromise> get_return_object() noexcept {
        return std::coroutine_handle<TaskPromise>::from_promise(*this);
    }
    void return_value(T value) { result.emplace(std::move(value)); }

    std::optional<T> result;
};

template <>
struct TaskPromise<void> : AwaitedPromise {
    std::coroutine_handle<TaskPromise> get_return_object() noexcept {
        return std::coroutine_handle<TaskPromise>::from_promise(*this);
    }
    static void return_void() noexcept {}
};

}  // namespace detail

// A Task is awaited once, and its exception reaches the awaiting coroutine. Its frame is destroyed
// with it.
template <class T = void>
class [[nodiscard]] Task {
  public:
    using promise_type = detail::TaskPromise<T>;

    // The compiler calls it with what a coroutine returns.
    Task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
    Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
    Task& operator=(Task&&) = delete;
    ~Task() {
        if (frame_) frame_.destroy();
    }

    static bool await_ready() noexcept { return false; }
    template <class Parent>
    bool await_suspend(std::coroutine_handle<Parent> parent) noexcept {
        promise_type& promise = frame_.promise();
        promise.root = parent.promise().root;
        frame_.resume();
        if (frame_.done()) return false;
        promise.parent = parent;
        return true;
    }
    T await_resume() {
        promise_type& promise = frame_.promise();
        if (promise.failure) std::rethrow_exception(std::move(promise.failure));
        if constexpr (!std::is_void_v<T>) return std::move(*promise.result);
    }

  private:
    std::coroutine_handle<promise_type> frame_;
};

// Owns a coroutine that waits, with all that wait for it; the code that will resume them holds it.
// Destroyed before that, it destroys them all.
class SuspendedTask {
  public:
    SuspendedTask() = default;
    template <class Promise>
    explicit SuspendedTask(std::coroutine_handle<Promise> waiting) noexcept
        : waiting_(waiting), root_(waiting.promise().root) {}
    SuspendedTask(SuspendedTask&& other) noexcept
        : waiting_(other.waiting_), root_(std::exchange(other.root_, nullptr)) {}
    SuspendedTask& operator=(SuspendedTask&& other) noexcept {
        std::swap(waiting_, other.waiting_);
        std::swap(root_, other.root_);
        return *this;
    }
    ~SuspendedTask() {
        if (root_) root_.destroy();
    }

    explicit operator bool() const { return static_cast<bool>(root_); }
    // The coroutine may destroy anything, this object too.
    void resume() {
        root_ = nullptr;
        waiting_.resume();
    }

  private:
    std::coroutine_handle<> waiting_;
    std::coroutine_handle<> root_;
};

// The message of `failure`, which is not null.
std::string message_of(const std::exception_ptr& failure);

// Sets how end_program() reports the reason; by default it writes to standard error. `tell` must
// not throw. Any thread.
using EndReporter = void (*)(std::string_view why) noexcept;
void set_end_reporter(EndReporter tell);

// Ends the program at once, with SIGABRT: `failure` ended what was begun at `from`, and the program
// is of no use without it. Any thread.
[[noreturn]] void end_program(const std::exception_ptr& failure,
                              const boost::source_location& from) noexcept;

}  // namespace tidegate

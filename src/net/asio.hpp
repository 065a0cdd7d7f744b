// Asio as Tidegate uses it: one executor type, one socket type, our coroutines, failures as values.
#pragma once

#include <optional>
#include <tuple>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/assert/source_location.hpp>

#include "net/task.hpp"

namespace tidegate {

namespace asio = boost::asio;
using boost::system::error_code;

// Concrete, so that no socket or timer pays for type erasure.
using Executor = asio::io_context::executor_type;

// TCP and Unix sockets alike: the peer's kind is a value, not a type.
using StreamProtocol = asio::generic::stream_protocol;
using StreamSocket = asio::basic_stream_socket<StreamProtocol, Executor>;
using Acceptor = asio::basic_socket_acceptor<StreamProtocol, Executor>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;

// `auto [ec, ...] = co_await op(as_values);`: errors are values, as everywhere in Tidegate.
struct AsValues {};
inline constexpr AsValues as_values{};

// An operation of Asio that begins when a Task awaits it, on the Task's own loop. If that loop is
// destroyed before it completes, so is the Task.
template <class Start, class... Values>
class [[nodiscard]] Operation {
  public:
    explicit Operation(Start start) : start_(std::move(start)) {}

    static bool await_ready() noexcept { return false; }
    // An operation that cannot begin for lack of memory ends the program: the waiting coroutine is
    // destroyed with the handler.
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
        Start start = std::move(start_);  // this may be gone before it returns
        start(Handler{&values_, SuspendedTask(waiting)});
    }
    std::tuple<Values...> await_resume() { return std::move(*values_); }

  private:
    struct Handler {
        void operator()(Values... values) {
            into->emplace(std::move(values)...);
            waiting.resume();
        }

        std::optional<std::tuple<Values...>>* into;
        SuspendedTask waiting;
    };

    Start start_;
    std::optional<std::tuple<Values...>> values_;
};

}  // namespace tidegate

template <class... Values>
struct boost::asio::async_result<tidegate::AsValues, void(Values...)> {
    template <class Initiation, class... Args>
    static auto initiate(Initiation&& initiation, tidegate::AsValues, Args&&... args) {
        auto start = [initiation = std::forward<Initiation>(initiation),
                      ... args = std::forward<Args>(args)](auto handler) mutable {
            std::move(initiation)(std::move(handler), std::move(args)...);
        };
        return tidegate::Operation<decltype(start), std::decay_t<Values>...>(std::move(start));
    }
};

namespace tidegate {

namespace detail {

// A coroutine that no other awaits.
struct Spawned {
    struct promise_type : Promise {
        Spawned get_return_object() noexcept {
            root = std::coroutine_handle<promise_type>::from_promise(*this);
            return {};
        }
        static std::suspend_never initial_suspend() noexcept { return {}; }
        static std::suspend_never final_suspend() noexcept { return {}; }
        static void return_void() noexcept {}
        static void unhandled_exception() noexcept { std::terminate(); }
    };
};

template <class T, class OnEnd>
Spawned run_spawned(Executor executor, Task<T> task, OnEnd on_end) {
    const auto work = asio::make_work_guard(executor);
    std::exception_ptr failure;
    if constexpr (std::is_void_v<T>) {
        try {
            co_await Task<T>(std::move(task));
        } catch (...) {
            failure = std::current_exception();
        }
        asio::post(executor, [on_end = std::move(on_end), failure]() mutable { on_end(failure); });
    } else {
        T result{};
        try {
            result = co_await Task<T>(std::move(task));
        } catch (...) {
            failure = std::current_exception();
        }
        asio::post(executor,
                   [on_end = std::move(on_end), failure, result = std::move(result)]() mutable {
                       on_end(failure, std::move(result));
                   });
    }
}

}  // namespace detail

// Runs `task` by itself on the loop of `executor`, which does not end before it. It begins at once
// if the caller is on that loop. When its frame is gone the loop calls on_end, with the exception
// that ended it or none, and what it returned. An exception is a bug: on_end reports it and ends
// what the task was for, or rethrows it, which ends the loop.
template <class T, class OnEnd>
void spawn(Executor executor, Task<T> task, OnEnd on_end) {
    if (executor.running_in_this_thread()) {
        detail::run_spawned(executor, std::move(task), std::move(on_end));
    } else {
        asio::post(executor,
                   [executor, task = std::move(task), on_end = std::move(on_end)]() mutable {
                       detail::run_spawned(executor, std::move(task), std::move(on_end));
                   });
    }
}

// The same for a task that the program cannot do without: ticks, accepting, a connection that is
// kept. An exception that ends it ends the program, and its message names the caller: the failure
// of a loop that ends in silence would show much later.
template <class T>
void spawn_vital(Executor executor, Task<T> task,
                 boost::source_location from = BOOST_CURRENT_LOCATION) {
    spawn(executor, std::move(task), [from](const std::exception_ptr& failure, const auto&...) {
        if (failure) end_program(failure, from);
    });
}

}  // namespace tidegate

// Runs a coroutine and blocks until it has ended.
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include "net/asio.hpp"

namespace tidegate::doctor {

// Returns what `task` returns, or throws what it throws. It runs on `io`, which no other thread
// runs, and has a deadline of its own.
template <class T>
T wait_for(asio::io_context& io, Task<T> task) {
    std::optional<T> result;
    spawn(io.get_executor(), std::move(task), [&](const std::exception_ptr& failure, T value) {
        if (failure) std::rethrow_exception(failure);
        result = std::move(value);
    });
    io.restart();
    while (!result && io.run_one() > 0) {
    }
    return std::move(*result);
}

}  // namespace tidegate::doctor

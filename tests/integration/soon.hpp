// Checks of what the program does after it has sent the answer: it counts, and logs.
#pragma once

#include <thread>

#include <doctest/doctest.h>

#include "integration/socket.hpp"

namespace tidegate::test {

// Whether `holds` became true in time.
template <class Holds>
bool await_quietly(Holds holds) {
    const auto deadline = Clock::now() + kPatience;
    while (!holds()) {
        if (Clock::now() >= deadline) return false;
        std::this_thread::sleep_for(milliseconds{2});
    }
    return true;
}

}  // namespace tidegate::test

// CHECK of what holds within a time, if only for a moment; where it does not, doctest prints its
// values.
#define CHECK_SOON(...)                                                                  \
    do {                                                                                 \
        const bool is_so = ::tidegate::test::await_quietly([&] { return __VA_ARGS__; }); \
        if (is_so) {                                                                     \
            CHECK(is_so);                                                                \
        } else {                                                                         \
            CHECK(__VA_ARGS__);                                                          \
        }                                                                                \
    } while (false)

// Checks of what the program does when the answer has left already: it counts, and tells.
#pragma once

#include <thread>

#include <doctest/doctest.h>

#include "integration/socket.hpp"

namespace tidegate::test {

template <class Holds>
void await_quietly(Holds holds) {
    const auto deadline = Clock::now() + kPatience;
    while (!holds() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds{2});
}

}  // namespace tidegate::test

// CHECK, once it holds or has had its time.
#define CHECK_SOON(...)                                               \
    do {                                                              \
        ::tidegate::test::await_quietly([&] { return __VA_ARGS__; }); \
        CHECK(__VA_ARGS__);                                           \
    } while (false)

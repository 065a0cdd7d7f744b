// Checks of what the program does after it has sent the answer: it counts, and logs.
#pragma once

#include <algorithm>
#include <thread>

#include <doctest/doctest.h>

#include "integration/socket.hpp"

namespace tidegate::test {

// The time between two looks at what is awaited: 2 ms at first, 20 ms after some looks. Each look
// may cost the program a page of metrics, so a wait of seconds would keep a CPU busy that other
// tests need.
class Pause {
  public:
    void take() {
        std::this_thread::sleep_for(next_);
        next_ = std::min(2 * next_, milliseconds{20});
    }

  private:
    milliseconds next_{2};
};

// Whether `holds` became true in time.
template <class Holds>
bool await_quietly(Holds holds) {
    const auto deadline = Clock::now() + kPatience;
    for (Pause pause; !holds(); pause.take()) {
        if (Clock::now() >= deadline) return false;
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

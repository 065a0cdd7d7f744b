// How long things are waited for: each step, and all together.
#pragma once

#include <algorithm>
#include <chrono>

#include "net/deadline.hpp"

namespace tidegate::doctor {

struct Patience {
    SteadyTime end;                         // of everything
    std::chrono::milliseconds step{2'000};  // for one thing

    // When what begins now has to be over.
    SteadyTime next() const { return std::min(end, std::chrono::steady_clock::now() + step); }
};

}  // namespace tidegate::doctor

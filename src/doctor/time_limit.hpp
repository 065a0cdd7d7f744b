// How long the doctor waits: for each step, and for all together.
#pragma once

#include <algorithm>
#include <chrono>

#include "net/deadline.hpp"

namespace tidegate::doctor {

struct TimeLimit {
    SteadyTime end;                         // of everything
    std::chrono::milliseconds step{2'000};  // for one thing

    // How long a step that begins now may take; not nothing.
    std::chrono::milliseconds for_step() const {
        // Rounded up: a step that takes all of it ends no sooner than everything.
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        return std::max(std::min(left, step), std::chrono::milliseconds{1});
    }
};

}  // namespace tidegate::doctor

// Looks at several things at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "doctor/finding.hpp"

namespace tidegate::doctor {

// Calls `examine(index)` for each index below `count`, on up to sixteen threads of which the
// caller's is one, and returns what was found in the order of the indices. What it throws is a
// finding, too: no memory, no descriptors. Where no thread can be had, those that are there do all.
template <class Examine>
Findings in_parallel(std::size_t count, Examine examine) {
    constexpr std::size_t kThreadsMax = 16;
    std::vector<Findings> found(count);
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t index = next++; index < count; index = next++) {
            try {
                found[index] = examine(index);
            } catch (const std::exception& error) {
                found[index].fault("here", std::string("the check failed: ") + error.what(),
                                   "see the limits of this process (ulimit -a) and the memory of "
                                   "this machine");
            }
        }
    };
    {
        std::vector<std::jthread> threads;
        try {
            threads.reserve(kThreadsMax);
            while (threads.size() + 1 < std::min(count, kThreadsMax)) threads.emplace_back(work);
        } catch (const std::exception&) {
            // Fewer take longer, and find the same.
        }
        work();
    }
    Findings all;
    for (Findings& one : found) all.append(std::move(one));
    return all;
}

}  // namespace tidegate::doctor

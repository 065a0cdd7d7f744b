// Work of the main thread that waits for files or computes for long: a thread of its own does it,
// while the loop goes on with signals and the admin listener.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/file_work.hpp"
#include "net/asio.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

inline constexpr std::chrono::milliseconds kApartPoll{2};

// Runs `work`, which owns all that it uses, on a thread of its own, and returns what it returns.
// Throws what it throws, and NoAnswerFromFile when a path does not answer within kFilePatience.
// After kFileNotice a log line, which begins with `what`, says which path it waits for. The caller
// is on the thread of `executor`; if it ends meanwhile, it does not wait for the work.
template <class Work>
auto apart(Executor executor, std::string what, Work work) -> Task<decltype(work())> {
    using T = decltype(work());
    const auto result = std::make_shared<std::optional<T>>();
    const FileWork under_way([result, work = std::move(work)]() mutable {  //
        result->emplace(work());
    });
    Timer pause(executor);
    bool is_told = false;
    while (!under_way.is_done()) {
        if (const auto path = under_way.overdue(kFilePatience)) {
            throw NoAnswerFromFile(no_answer_text(*path, kFilePatience));
        }
        if (const auto path = under_way.overdue(kFileNotice); path && !is_told) {
            telemetry::log(telemetry::Level::warn, "{} {}", what, waiting_text(*path));
            is_told = true;
        }
        pause.expires_after(kApartPoll);
        co_await pause.async_wait(as_values);
    }
    under_way.rethrow();
    co_return std::move(**result);
}

}  // namespace tidegate::app

// The answers to `/api/top` and `/api/denials`: whom requests are counted for, and whom a limit has
// refused. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "admin/answer.hpp"
#include "base/result.hpp"
#include "telemetry/activity.hpp"

namespace tidegate::admin {

// What the query of `target` asks `/api/top` for; an answer says what is wrong with it.
Result<ActivityRequest, AdminAnswer> top_asked_for(std::string_view target);

// What a thread has said, by its number.
struct ThreadActivity {
    std::size_t thread = 0;
    telemetry::ActivityCopy copy;
};

// `names_max`: counters a thread, kind and generation; 0: `telemetry.top` is off.
AdminAnswer answer_to_top(ActivityRequest::Kind kind, const std::vector<ThreadActivity>& threads,
                          std::size_t names_max, std::chrono::seconds reach);
AdminAnswer answer_to_denials(const std::vector<ThreadActivity>& threads, std::size_t names_max);

}  // namespace tidegate::admin

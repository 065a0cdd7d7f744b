// The answers to what the dashboard asks: `/api/live`, what the process does, second by second;
// `/api/top` and `/api/denials`, whom requests are counted for, and whom a limit has refused. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "admin/answer.hpp"
#include "base/result.hpp"
#include "telemetry/activity.hpp"
#include "telemetry/live.hpp"
#include "upstream/metrics.hpp"

namespace tidegate::admin {

// What there is to show. Views and references outlive the call.
struct LiveView {
    const telemetry::LiveSeries& series;
    const std::vector<upstream::UpstreamStatus>& upstreams;  // as of now
    std::chrono::system_clock::time_point now;
    std::chrono::system_clock::time_point started;
    std::string_view version;
    std::uint64_t generation = 1;  // of the configuration in force
    std::string_view store;        // `redis` or `memory`
    std::size_t threads = 0;
};

// JSON; with `since=T` in the query of `target`, samples whose `time_ms` is above T only. 400 where
// the query says something else.
AdminAnswer answer_to_live(std::string_view target, const LiveView& view);

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

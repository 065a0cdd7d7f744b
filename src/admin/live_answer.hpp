// The answer to `/api/live`: what the process does, second by second. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "admin/answer.hpp"
#include "telemetry/live.hpp"
#include "upstream/server_status.hpp"

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

}  // namespace tidegate::admin

// These functions answer what the dashboard asks: `/api/live` says what the process does, second by
// second; `/api/top` which identifiers requests are counted for, `/api/denials` which requests a
// limit has refused, and `/api/upstreams` which servers are up. Pure.
//
// Members may be added to the JSON, and none is taken away or renamed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "admin/answer.hpp"
#include "base/doc.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "telemetry/live.hpp"
#include "telemetry/top_and_denials.hpp"
#include "upstream/metrics.hpp"

namespace tidegate::admin {

// The figures that `/api/live` shows. Views and references outlive the call.
struct LiveView {
    const telemetry::LiveSeries& series;
    const std::vector<upstream::UpstreamStatus>& upstreams;  // as of now
    std::chrono::system_clock::time_point now;
    std::chrono::system_clock::time_point started;
    std::string_view version;
    std::uint64_t generation = 1;    // of the configuration in force
    std::string_view config_hash{};  // likewise
    bool is_rolled_back = false;     // likewise
    std::string_view store;          // `redis` or `memory`
    std::size_t threads = 0;
};

// JSON; with `since=T` in the query of `target`, samples whose `time_ms` is above T only. 400 where
// the query says something else.
AdminAnswer answer_to_live(std::string_view target, const LiveView& view);

// Holds what the thread of that number has copied for an answer.
struct ThreadActivity {
    std::size_t thread = 0;
    telemetry::ActivityCopy copy;
};

// `names_max`: counters a thread, kind and generation; 0: `telemetry.top` is off.
AdminAnswer answer_to_top(ActivityRequest::Kind kind, const std::vector<ThreadActivity>& threads,
                          std::size_t names_max, std::chrono::seconds reach);

// The denials that a question is about; what is empty leaves none out.
struct WantedDenials {
    bool in_shadow = false;      // they come from the log of policies in shadow
    bool of_candidates = false;  // they come from the log of candidates
    std::vector<std::string> identifiers{};
    std::string policy{};
    bool policy_is_known = true;  // the configuration has it
    std::optional<std::chrono::system_clock::time_point> since{};

    bool has_filter() const { return !identifiers.empty() || !policy.empty() || since; }
};
// Whether the question is about a log of denials.
bool lists_denials(ActivityRequest::Kind kind);
// Reads such a request; or says in a sentence what is wrong with it.
Result<WantedDenials, std::string> wanted_denials(const ActivityRequest& request,
                                                  const config::Config& config,
                                                  std::chrono::system_clock::time_point now);
// 400 if no thread has a denial by the policy asked for, and the configuration does not know it.
AdminAnswer answer_to_denials(const std::vector<ThreadActivity>& threads, std::size_t names_max,
                              const WantedDenials& wanted = {});

// The text where the configuration has no names kept.
inline constexpr std::string_view kNotKept =
    "the configuration has `telemetry: {top: off}`: Tidegate keeps no names of clients";

// Make the table of denials: its heading, and a line of an entry of the JSON. Each ends with a line
// feed. denial_line() throws Doc::Json::exception for what is no such entry.
std::string denial_heading();
std::string denial_line(const Doc::Json& denial);

// {"upstreams":[{"name":"api","connections":3,...,"servers":[{"server":...,"state":"up"}]}]}
AdminAnswer answer_to_upstreams(std::span<const upstream::UpstreamStatus> all);

// For `/readyz`: {"api":{"servers":3,"up":2}}
std::string upstreams_summary(std::span<const upstream::UpstreamStatus> all);

}  // namespace tidegate::admin

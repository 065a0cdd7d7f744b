// What is wrong with all that a configuration rests on, and what to do: Redis, sentinels, clusters,
// upstreams, keys, certificates, clocks. Nothing is changed and no key left behind; the scripts
// stay in Redis's cache of scripts, where Tidegate would have put them, and what is refused (INFO
// and CONFIG GET, if nothing else) stands in its ACL LOG. No request is sent to an upstream.
#pragma once

#include <chrono>
#include <string>

#include "config/config.hpp"
#include "doctor/finding.hpp"

namespace tidegate::doctor {

inline constexpr std::chrono::milliseconds kDefaultTime{10'000};

// Looks at everything, at once where things do not depend on each other. Blocks for at most `time`
// and a little. A configuration with faults is all that is looked at then.
Findings examine(const config::Loaded& loaded, const std::string& summary,
                 std::chrono::milliseconds time = kDefaultTime);

}  // namespace tidegate::doctor

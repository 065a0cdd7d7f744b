// Finds out what is wrong with all that a configuration depends on, and says what to do: Redis,
// sentinels, clusters, upstreams, keys, certificates, listeners with TLS, clocks, the collector of
// spans, gateways that ask. The doctor changes nothing and leaves no key behind. The scripts stay
// in Redis's cache of scripts, where Tidegate would have put them, and Redis's ACL LOG has what it
// refused (INFO and CONFIG GET, if nothing else). An upstream gets no request but its health check.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "config/config.hpp"
#include "doctor/finding.hpp"

namespace tidegate::doctor {

inline constexpr std::chrono::milliseconds kDefaultTime{10'000};

// A type of its own, as Result<std::string, std::string> would be ambiguous.
struct MetricsText {
    std::string text;
};

// The Tidegate that may be running with the configuration.
struct RunningProxy {
    // Asks the running Tidegate for /metrics, within a time; else says why there are none. Called
    // by several threads at once. Empty: it cannot be asked.
    std::function<Result<MetricsText, std::string>(std::chrono::milliseconds)> metrics{};
};

// Looks at everything, at once where things do not depend on each other. Blocks for at most `time`
// and a little. A configuration with faults is all that is looked at then.
Findings examine(const config::Loaded& loaded, const std::string& summary,
                 const RunningProxy& beside, std::chrono::milliseconds time = kDefaultTime);

}  // namespace tidegate::doctor

// What the answers of servers to health checks mean. Pure.
#pragma once

#include <chrono>
#include <string>

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "upstream/health_check.hpp"

namespace tidegate::doctor {

// `where` is the server, `host` what its check has as Host. `others_serve`: requests can go to
// another server of the upstream.
void judge_health(const config::Upstream& settings, const std::string& where,
                  const std::string& host, const upstream::HealthAnswer& answer, bool others_serve,
                  Findings& findings);

// Whether a full queue can be served within its wait, if requests take as long as the fastest of
// the checks, `took`.
void judge_queue(const config::Upstream& settings, std::chrono::nanoseconds took,
                 Findings& findings);

}  // namespace tidegate::doctor

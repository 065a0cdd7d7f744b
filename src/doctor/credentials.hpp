// The keys of tokens that Tidegate fetches, and the certificates in its files. Blocks.
#pragma once

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/time_limit.hpp"

namespace tidegate::doctor {

// The keys of tokens: each URL is fetched once, as Tidegate fetches it.
Findings examine_keys(const config::Config& config, const TimeLimit& time_limit);

// The certificates of files that the configuration names: ours, and of authorities we believe.
Findings examine_certificates(const config::Config& config);

}  // namespace tidegate::doctor

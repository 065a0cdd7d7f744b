// What identities and encrypted connections rest on: keys that are fetched, certificates of our
// own. Blocks.
#pragma once

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/patience.hpp"

namespace tidegate::doctor {

// The keys of tokens: each URL is fetched once, as Tidegate fetches it.
Findings examine_keys(const config::Config& config, const Patience& patience);

// The certificates of files that the configuration names: ours, and of authorities we believe.
Findings examine_certificates(const config::Config& config);

}  // namespace tidegate::doctor

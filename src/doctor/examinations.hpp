// The parts of an examination (doctor.cpp). Each blocks until it has looked at everything, or the
// time is over.
#pragma once

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/trial.hpp"

namespace tidegate::doctor {

Findings examine_redis(const config::Config& config, const config::RedisSettings& settings,
                       const TimeLimit& time_limit);

// The keys of tokens: each URL is fetched once, as Tidegate fetches it.
Findings examine_keys(const config::Config& config, const TimeLimit& time_limit);

// The certificates of files that the configuration names: ours, and of authorities we believe.
Findings examine_certificates(const config::Config& config);

// Each server of each upstream, at each of its addresses. No request is sent but that of the
// upstream's `health_check`, once.
Findings examine_upstreams(const config::Config& config, const TimeLimit& time_limit);

// Shakes hands with each listener with `tls` for each name of its certificates, asks each listener
// with `redirect` for one name, begins HTTP/2 with those in the clear that have it, and finds out
// whether the latter and the others speak TLS. Of a configuration with neither TLS nor HTTP/2, no
// listener is connected to.
Findings examine_listeners(const config::Config& config, const TimeLimit& time_limit);

}  // namespace tidegate::doctor

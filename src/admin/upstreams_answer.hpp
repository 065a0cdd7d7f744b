// What `/api/upstreams` and `/readyz` say of the servers of upstreams. Pure.
//
// Members may be added to the JSON, and none is taken away or renamed.
#pragma once

#include <span>
#include <string>

#include "admin/answer.hpp"
#include "upstream/metrics.hpp"

namespace tidegate::admin {

// {"upstreams":[{"name":"api","connections":3,...,"servers":[{"server":...,"state":"up"}]}]}
AdminAnswer answer_to_upstreams(std::span<const upstream::UpstreamStatus> all);

// {"api":{"servers":3,"up":2}}
std::string upstreams_summary(std::span<const upstream::UpstreamStatus> all);

}  // namespace tidegate::admin

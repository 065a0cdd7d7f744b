// Why a request did not get the upstream's answer, and what that means for its client.
#pragma once

#include <cstdint>
#include <string_view>

#include "telemetry/metrics.hpp"

namespace tidegate::proxy {

enum class Fault : std::uint8_t {
    none,
    // the client's
    bad_head,
    bad_framing,
    bad_path,
    ambiguous_path,
    bad_version,
    unsupported_method,
    uri_too_long,
    head_too_large,
    body_too_large,
    bad_body,
    head_timeout,
    body_timeout,
    nobody,       // no key of a policy names anybody
    client_left,  // nobody is there to be answered
    // ours
    no_route,
    limited,
    store_unavailable,
    // the upstream's
    upstream_unreachable,
    upstream_exhausted,  // every connection we may have is in use
    upstream_broken,     // its answer makes no sense, or it closed without one
    upstream_timeout,
    answer_cut_off,  // it broke off inside its answer: the client has part of it
};

struct FaultTraits {
    int status;  // 0: no answer can be given
    telemetry::Outcome outcome;
    bool close;               // the client's connection cannot go on
    std::string_view name;    // for the log: `client: bad framing`
    std::string_view detail;  // for the client, unless there is something better to say
};

const FaultTraits& traits(Fault fault);

}  // namespace tidegate::proxy

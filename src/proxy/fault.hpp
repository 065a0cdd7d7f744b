// Why a request did not get the upstream's answer, and what that means for its client.
#pragma once

#include <cstddef>
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
    too_many_fields,
    body_too_large,
    bad_body,
    head_timeout,
    body_timeout,
    body_made_room,         // its upstream connection went to a request that can use it
    nobody,                 // no key of a policy names anybody
    ambiguous_name,         // what a policy counts by can be read in more than one way
    bad_credentials,        // who is asking says so with a credential that is not valid
    ambiguous_credentials,  // with two where there can be one
    credentials_unchecked,  // with one that cannot be checked at the moment
    bad_moment,             // a schedule is met, and the request does not say when it is meant for
    denied,                 // a policy's `deny` names the client
    client_left,            // nobody is there to be answered
    client_not_reading,     // somebody is, and does not take what is sent
    answer_made_room,       // its upstream connection went to another request inside the answer
    // ours
    no_route,
    limited,
    store_unavailable,
    stopped,  // the time to drain was over
    // the upstream's
    upstream_unreachable,
    connect_timeout,
    upstream_exhausted,  // every connection we may have is in use
    upstream_broken,     // its answer makes no sense, or it closed without one
    upstream_timeout,
    answer_cut_off,  // it broke off inside its answer: the client has part of it
    answer_stalled,  // it fell silent there
};

inline constexpr std::size_t kFaults = static_cast<std::size_t>(Fault::answer_stalled) + 1;

struct FaultTraits {
    int status;  // 0: no answer can be given
    telemetry::Outcome outcome;
    bool close;               // the client's connection cannot go on
    std::string_view name;    // for log and metrics: `client: bad framing`
    std::string_view detail;  // for the client, unless there is something better to say
};

const FaultTraits& traits(Fault fault);

}  // namespace tidegate::proxy

// How a request ended, as tidegate_requests_total and the access log name it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidegate::telemetry {

enum class Outcome : std::uint8_t {
    forwarded,    // the upstream's answer was relayed
    answered,     // a gateway or a program asked, and the request may go on
    redirected,   // a listener with `redirect` sent the client to https
    limited,      // a limit refused it
    rejected,     // the request itself was at fault: 4xx other than the limit
    failed,       // the upstream was: 502, 503, 504, or a broken answer
    unavailable,  // the store was, and the policy says deny
    aborted,      // the client left before its answer, or we stopped
};
inline constexpr std::size_t kOutcomes = static_cast<std::size_t>(Outcome::aborted) + 1;

std::string_view to_string(Outcome outcome);

}  // namespace tidegate::telemetry

// How a request ended, as tidegate_requests_total and the access log name it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/described_enum.hpp"

namespace tidegate::telemetry {

BOOST_DEFINE_FIXED_ENUM_CLASS(
    Outcome, std::uint8_t,
    forwarded,    // the upstream's answer was relayed
    answered,     // a gateway or a program asked, and the request may go on
    redirected,   // a listener with `redirect` sent the client to https
    limited,      // a limit refused it
    rejected,     // the request itself was at fault: 4xx other than the limit
    failed,       // the upstream was: 502, 503, 504, or a broken answer
    unavailable,  // the store was, and the policy says deny
    aborted)      // the client left before its answer, or Tidegate stopped
inline constexpr std::size_t kOutcomes = kEnumerators<Outcome>.size();

// The reference explains with these words, in Markdown, the outcomes that do not speak for
// themselves.
inline constexpr EnumTexts<Outcome> kOutcomeNotes(
    {{Outcome::forwarded, ""},
     {Outcome::answered, "a gateway or a program got its consent"},
     {Outcome::redirected,
      "a listener with [`redirect`](tls.md#redirect-and-hsts) sent the client to https"},
     {Outcome::limited, ""},
     {Outcome::rejected, ""},
     {Outcome::failed, ""},
     {Outcome::unavailable, ""},
     {Outcome::aborted, ""}});

}  // namespace tidegate::telemetry

// What was decided of a request and how it ended, as metrics and the access log name it.
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

// What the limits said of a request that was decided.
BOOST_DEFINE_FIXED_ENUM_CLASS(RecordedVerdict, std::uint8_t, admitted, limited, unlimited, local,
                              allowed, unavailable)

// For the reference: Markdown, without a full stop.
inline constexpr EnumTexts<RecordedVerdict> kVerdictMeanings(
    {{RecordedVerdict::admitted, "every limit that counts it has units for it"},
     {RecordedVerdict::limited, "a limit has not"},
     {RecordedVerdict::unlimited, "no limit counts it"},
     {RecordedVerdict::local, "without Redis, this process counted and admitted it"},
     {RecordedVerdict::allowed,
      "without Redis, [`on_store_failure: allow`](limits.md#when-the-store-fails) let it pass "
      "uncounted"},
     {RecordedVerdict::unavailable,
      "`on_store_failure: deny` refused it (503), or the store in process was full"}});

}  // namespace tidegate::telemetry

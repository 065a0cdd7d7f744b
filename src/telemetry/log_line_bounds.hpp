// How much of each text a line of the access log has, and what the longest line needs.
#pragma once

#include <cstddef>

#include "base/json_escape.hpp"

namespace tidegate::telemetry {

inline constexpr std::size_t kPathBytesMax = 1024;
inline constexpr std::size_t kHostBytesMax = 255;
inline constexpr std::size_t kMethodBytesMax = 32;
inline constexpr std::size_t kUserAgentBytesMax = 256;
// Of what the configuration or Tidegate itself named.
inline constexpr std::size_t kNameBytesMax = 256;
inline constexpr std::size_t kIdBytesMax = 128;
inline constexpr std::size_t kIdentifierBytesMax = 128;
inline constexpr std::size_t kIdentifiersMax = 16;

// All the strings of a line at their longest, were every byte escaped; the names of the fields,
// the numbers and the marks of what was cut. An identifier may be escaped twice, which makes one
// byte more of each escape, and has quotes of its own.
inline constexpr std::size_t kStringBytesMax =
    kPathBytesMax + kHostBytesMax + kMethodBytesMax + kUserAgentBytesMax + 9 * kNameBytesMax +
    kIdBytesMax + kIdentifiersMax * (kIdentifierBytesMax + 1);
inline constexpr std::size_t kTwiceEscapedBytesMax = kIdentifiersMax * (kIdentifierBytesMax + 4);
inline constexpr std::size_t kFixedBytesMax = 1024;
inline constexpr std::size_t kLineBytesMax =
    kStringBytesMax * kEscapedBytesMax + kTwiceEscapedBytesMax + kFixedBytesMax;

}  // namespace tidegate::telemetry

// Which slot of a Redis Cluster a key is in (Redis Cluster specification, "Key distribution model"
// and "Hash tags"). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidegate::redis {

inline constexpr std::size_t kSlots = 16'384;

// CRC-16/XMODEM, as the specification's appendix has it.
std::uint16_t crc16(std::string_view bytes);

// The slot of a key: of what is between its first `{` and the next `}`, if there is something.
std::uint16_t slot_of_key(std::string_view key);

// The slot of every key whose hash tag is `tag`. Requires that it is not empty and has no `}`.
inline std::uint16_t slot_of_tag(std::string_view tag) {
    return static_cast<std::uint16_t>(crc16(tag) % kSlots);
}

}  // namespace tidegate::redis

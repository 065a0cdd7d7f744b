// As much of RFC 6455 as clients and servers of short messages need. Pure: bytes in, bytes out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bench {

inline constexpr std::string_view kHeadEnd = "\r\n\r\n";
inline constexpr std::size_t kPayloadBytesMax = 125;  // of a frame here

// The value of a field of a head; empty when it has no such field. `name` is in lower case.
std::string_view field_of(std::string_view head, std::string_view name);

// Of Sec-WebSocket-Accept, for a key.
std::string accept_value(std::string_view key);
// Of Sec-WebSocket-Key: 16 random bytes.
std::string random_key();

enum Opcode : std::uint8_t { kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };
using Mask = std::array<char, 4>;

// Random and different for each frame, as section 5.3 wants them; many are made at a time.
class Masks {
  public:
    Mask next();

  private:
    std::array<unsigned char, 4096> bytes_{};
    std::size_t used_ = bytes_.size();
};

// A frame that is a message of its own. With a mask it is a client's.
void add_frame(std::string& to, Opcode opcode, std::string_view payload,
               const std::optional<Mask>& mask = {});

struct Frame {
    Opcode opcode;
    std::string payload;  // unmasked
    std::size_t bytes;    // of all of it
};
// The first frame; none: it is not complete. Throws when its payload is too long.
std::optional<Frame> first_frame(std::string_view bytes);

}  // namespace bench

#include "identity/base64url.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace tidegate::identity {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::uint8_t kNoDigit = 0xff;

// The value of each byte as a digit.
constexpr std::array<std::uint8_t, 256> kDigits = [] {
    std::array<std::uint8_t, 256> digits{};
    digits.fill(kNoDigit);
    for (std::size_t i = 0; i < kAlphabet.size(); ++i)
        digits[static_cast<std::uint8_t>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
    return digits;
}();

}  // namespace

std::optional<std::string> decode_base64url(std::string_view text) {
    if (text.size() % 4 == 1) return std::nullopt;
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3 + 2);
    std::uint32_t pending = 0;
    unsigned bits = 0;
    for (const char c : text) {
        const std::uint8_t digit = kDigits[static_cast<std::uint8_t>(c)];
        if (digit == kNoDigit) return std::nullopt;
        pending = (pending << 6) | digit;
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        bytes += static_cast<char>(pending >> bits & 0xff);
        pending &= (1U << bits) - 1;
    }
    if (pending != 0) return std::nullopt;
    return bytes;
}

}  // namespace tidegate::identity

// Answers of the charge script, for servers that only act as if they ran it.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace tidegate::test {

inline constexpr std::int64_t kServerTime = 1'700'000'000'000'000;

inline void append_packed_double(std::int64_t number, std::string& out) {
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(number));
    for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(bits >> shift);
}

// To requests, admitted or not, of states with a window each that counted so many units before; the
// next one is free, and a denied request passes, after a while.
inline std::string script_reply(const std::vector<bool>& admitted, std::int64_t retry_us,
                                const std::vector<std::int64_t>& units) {
    std::string bytes;
    append_packed_double(kServerTime, bytes);
    for (const bool one : admitted) {
        bytes += one ? '\3' : '\2';
        append_packed_double(one ? 0 : kServerTime + retry_us, bytes);
    }
    for (const std::int64_t count : units) {
        append_packed_double(7, bytes);  // the generation
        append_packed_double(count, bytes);
        append_packed_double(kServerTime + 1'000, bytes);
    }
    return "$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n";
}

// To requests of different items with a window each: one that is not looked at counted -1 units.
inline std::string mixed_reply(const std::vector<bool>& admitted, std::int64_t retry_us,
                               const std::vector<std::int64_t>& units) {
    std::string bytes;
    for (std::size_t i = 0; i < admitted.size(); ++i) {
        append_packed_double(kServerTime, bytes);
        if (units[i] < 0) {
            bytes += '\4';
            continue;
        }
        bytes += admitted[i] ? '\3' : '\2';
        append_packed_double(admitted[i] ? 0 : kServerTime + retry_us, bytes);
        append_packed_double(7, bytes);  // the generation
        append_packed_double(units[i], bytes);
        append_packed_double(kServerTime + 1'000, bytes);
    }
    return "$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n";
}

inline std::string script_reply(bool admitted, std::int64_t retry_us,
                                const std::vector<std::int64_t>& units) {
    return script_reply(std::vector<bool>{admitted}, retry_us, units);
}

}  // namespace tidegate::test

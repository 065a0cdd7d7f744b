// Writing Redis commands and the packed numbers that scripts read. Pure; inline, as every decision
// writes a command.
#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidegate::store {

inline void append_decimal(std::uint64_t number, std::string& out) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
    out.append(digits, end);
}

// RESP's `$3\r\n` (a string of three bytes) or `*3\r\n` (an array of three).
inline void append_length(char type, std::size_t length, std::string& out) {
    out += type;
    append_decimal(length, out);
    out += "\r\n";
}

inline void append_string(std::string_view text, std::string& out) {
    append_length('$', text.size(), out);
    out.append(text).append("\r\n");
}

inline void append_number(std::uint64_t number, std::string& out) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
    append_string({digits, end}, out);
}

// Little endian, as the scripts pack and unpack.
template <class Unsigned>
void append_packed(Unsigned number, std::string& out) {
    std::array<char, sizeof(Unsigned)> bytes;
    for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
        bytes[i] = static_cast<char>(static_cast<unsigned char>(number >> (8 * i)));
    }
    out.append(bytes.data(), bytes.size());
}

// Doubles are what Lua counts in; a whole number below 2^53 is exact in one.
inline void append_double(std::int64_t number, std::string& out) {
    append_packed(std::bit_cast<std::uint64_t>(static_cast<double>(number)), out);
}

// Requires 8 bytes.
inline double read_double(std::string_view bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < sizeof(number); ++i) {
        number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return std::bit_cast<double>(number);
}

}  // namespace tidegate::store

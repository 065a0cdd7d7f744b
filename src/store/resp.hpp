// Writing Redis commands and the packed numbers that scripts read. Pure; inline, as every decision
// writes a command.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <boost/endian/conversion.hpp>

#include "limit/window.hpp"
#include "redis/resp.hpp"

namespace tidegate::store {

inline void append_decimal(std::uint64_t number, std::string& out) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
    out.append(digits, end);
}

using redis::append_length;
using redis::append_number;
using redis::append_string;

// Little endian, as the scripts pack and unpack.
template <class Unsigned>
void append_packed(Unsigned number, std::string& out) {
    std::array<char, sizeof(Unsigned)> bytes;
    boost::endian::native_to_little_inplace(number);
    std::memcpy(bytes.data(), &number, sizeof(number));
    out.append(bytes.data(), bytes.size());
}

// Doubles are what Lua counts in; a whole number below 2^53 is exact in one.
inline void append_double(std::int64_t number, std::string& out) {
    append_packed(std::bit_cast<std::uint64_t>(static_cast<double>(number)), out);
}

// The last argument of a script: what time it is. None: Redis reads its own clock.
inline void append_clock(std::optional<limit::Micros> clock, std::string& out) {
    if (!clock) return;
    assert(*clock >= limit::Micros{0} && *clock <= limit::kNowMax);
    append_number(static_cast<std::uint64_t>(clock->count()), out);
}

// Writes what append_packed() would, side by side into room that is large enough.
class Packer {
  public:
    explicit Packer(char* room) : at_(room) {}

    template <class Unsigned>
    void put(Unsigned number) {
        boost::endian::native_to_little_inplace(number);
        std::memcpy(at_, &number, sizeof(number));
        at_ += sizeof(number);
    }
    void put_double(std::int64_t number) {
        put(std::bit_cast<std::uint64_t>(static_cast<double>(number)));
    }
    char* end() const { return at_; }

  private:
    char* at_;
};

// Requires that many bytes.
template <class Unsigned>
Unsigned read_packed(std::string_view bytes) {
    Unsigned number;
    std::memcpy(&number, bytes.data(), sizeof(number));
    return boost::endian::little_to_native(number);
}

// Requires 8 bytes.
inline double read_double(std::string_view bytes) {
    return std::bit_cast<double>(read_packed<std::uint64_t>(bytes));
}

}  // namespace tidegate::store

// Writing Redis commands and the packed numbers that scripts read. Pure; inline, as every decision
// writes a command.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/endian/conversion.hpp>

#include "limit/limit.hpp"
#include "limit/window.hpp"
#include "redis/resp.hpp"

namespace tidegate::store {

using redis::append_length;
using redis::append_number;
using redis::append_string;

inline void append_decimal(std::uint64_t number, std::string& out) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
    out.append(digits, end);
}

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

// Reading the packed numbers that scripts answer with. Pure; inline, as every decision reads some.

// Reads one thing after the other; once something is wrong everything is 0.
class ReplyReader {
  public:
    explicit ReplyReader(std::string_view bytes) : bytes_(bytes) {}

    std::uint8_t byte() {
        const std::string_view one = take(1);
        return one.empty() ? 0 : static_cast<std::uint8_t>(one[0]);
    }

    // Little endian, as struct.pack('<I2') and '<I4' write it.
    template <class Unsigned>
    Unsigned packed() {
        const std::string_view bytes = take(sizeof(Unsigned));
        return bytes.empty() ? 0 : read_packed<Unsigned>(bytes);
    }

    // A whole number within 2^53.
    std::int64_t number() {
        constexpr double kNumberMax = 9007199254740992;
        const std::string_view bytes = take(8);
        if (bytes.empty()) return 0;
        const double value = read_double(bytes);
        const bool is_within = std::abs(value) <= kNumberMax;  // and so is a number
        const std::int64_t whole = is_within ? static_cast<std::int64_t>(value) : 0;
        if (is_within && static_cast<double>(whole) == value) return whole;
        ok_ = false;
        return 0;
    }

    std::string_view take(std::size_t size) {
        if (!ok_ || bytes_.size() < size) {
            ok_ = false;
            return {};
        }
        const std::string_view taken = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        return taken;
    }

    bool ok() const { return ok_; }
    bool at_end() const { return bytes_.empty(); }

  private:
    std::string_view bytes_;
    bool ok_ = true;
};

// The moments of a schedule as scripts tell them (lua/schedule.lua). Pure.

struct ScheduleReply {
    limit::Micros asked_for{0};           // those that cannot matter from then on are left out
    std::vector<std::int64_t> moments{};  // in order, several may be equal
    bool are_all = true;                  // else there are later ones
};

// False if this is no list of moments; `reply` is then unspecified.
bool read_moments(ReplyReader& reader, ScheduleReply& reply);

}  // namespace tidegate::store

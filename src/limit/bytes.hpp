// Numbers as bytes: as the scripts in Redis pack and unpack them, and as a process writes its
// counts for the one that takes its place. Pure; inline, as every decision writes and reads some.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <boost/endian/conversion.hpp>

namespace tidegate::limit {

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

// Reads one thing after the other. Past the end it yields nothing and zeros, and is broken from
// then on.
class ByteReader {
  public:
    explicit ByteReader(std::string_view bytes) : left_(bytes) {}

    std::string_view take(std::uint64_t size) {
        if (is_broken_ || size > left_.size()) {
            is_broken_ = true;
            return {};
        }
        const std::string_view taken = left_.substr(0, static_cast<std::size_t>(size));
        left_.remove_prefix(taken.size());
        return taken;
    }
    // Little endian, as struct.pack('<I2') and '<I4' write it.
    template <class Unsigned>
    Unsigned packed() {
        const std::string_view bytes = take(sizeof(Unsigned));
        return bytes.empty() ? 0 : read_packed<Unsigned>(bytes);
    }

    // What was read is not what its writer writes.
    void refuse() { is_broken_ = true; }
    bool is_broken() const { return is_broken_; }
    std::string_view left() const { return left_; }
    bool is_at_end() const { return left_.empty(); }

  private:
    std::string_view left_;
    bool is_broken_ = false;
};

// Reads what a script answers.
class PackedReader : public ByteReader {
  public:
    using ByteReader::ByteReader;

    std::uint8_t byte() { return packed<std::uint8_t>(); }

    // A whole number within 2^53.
    std::int64_t number() {
        constexpr double kNumberMax = 9007199254740992;
        const std::string_view bytes = take(8);
        if (bytes.empty()) return 0;
        const double value = read_double(bytes);
        const bool is_within = std::abs(value) <= kNumberMax;  // and so is a number
        const std::int64_t whole = is_within ? static_cast<std::int64_t>(value) : 0;
        if (is_within && static_cast<double>(whole) == value) return whole;
        refuse();
        return 0;
    }
};

// Writes counts for another process. Each number takes eight bytes, the lowest first; a text its
// length, then its bytes.
class CountsWriter {
  public:
    void number(std::int64_t value) { number(static_cast<std::uint64_t>(value)); }
    void number(std::uint64_t value) { append_packed(value, bytes_); }
    void text(std::string_view value) {
        number(std::uint64_t{value.size()});
        bytes_ += value;
    }

    const std::string& bytes() const { return bytes_; }
    void clear() { bytes_.clear(); }

  private:
    std::string bytes_;
};

// Reads what a CountsWriter wrote. A text longer than what is left breaks it, too.
class CountsReader : public ByteReader {
  public:
    using ByteReader::ByteReader;

    std::uint64_t number() { return packed<std::uint64_t>(); }
    // A number that all arithmetic with times has room for.
    std::int64_t time_us() {
        const auto value = static_cast<std::int64_t>(number());
        constexpr std::int64_t kMost = std::int64_t{1} << 53;
        if (value < -kMost || value > kMost) refuse();
        return is_broken() ? 0 : value;
    }
    std::string_view text() { return take(number()); }
    // How many items follow, each of at least `bytes_each`: never more than there is room for.
    std::size_t count(std::size_t bytes_each) {
        const std::uint64_t value = number();
        if (value <= left().size() / bytes_each) return static_cast<std::size_t>(value);
        refuse();
        return 0;
    }
};

}  // namespace tidegate::limit

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

// Reads one thing after the other; once something is wrong everything is 0.
class PackedReader {
  public:
    explicit PackedReader(std::string_view bytes) : bytes_(bytes) {}

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

// Writes counts for another process. Each number takes eight bytes, the lowest first; a text its
// length, then its bytes.
class CountsWriter {
  public:
    void number(std::int64_t value) { number(static_cast<std::uint64_t>(value)); }
    void number(std::uint64_t value) {
        for (int byte = 0; byte < 8; ++byte) {
            bytes_ += static_cast<char>(value >> (8 * byte) & 255);
        }
    }
    void text(std::string_view value) {
        number(std::uint64_t{value.size()});
        bytes_ += value;
    }

    const std::string& bytes() const { return bytes_; }
    void clear() { bytes_.clear(); }

  private:
    std::string bytes_;
};

// Reads what a CountsWriter wrote. Past the end, or after a text longer than what is left, it
// yields zeros and empty texts, and is broken from then on.
class CountsReader {
  public:
    explicit CountsReader(std::string_view bytes) : left_(bytes) {}

    std::uint64_t number() {
        std::uint64_t value = 0;
        const std::string_view bytes = take(8);
        for (std::size_t i = bytes.size(); i > 0; --i) {
            value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
        }
        return value;
    }
    // A number that all arithmetic with times has room for.
    std::int64_t time_us() {
        const auto value = static_cast<std::int64_t>(number());
        constexpr std::int64_t kMost = std::int64_t{1} << 53;
        if (value < -kMost || value > kMost) is_broken_ = true;
        return is_broken_ ? 0 : value;
    }
    std::string_view text() { return take(number()); }
    // How many items follow, each of at least `bytes_each`: never more than there is room for.
    std::size_t count(std::size_t bytes_each) {
        const std::uint64_t value = number();
        if (value <= left_.size() / bytes_each) return static_cast<std::size_t>(value);
        is_broken_ = true;
        return 0;
    }

    // What was read is none of a CountsWriter's.
    void refuse() { is_broken_ = true; }
    bool is_broken() const { return is_broken_; }
    bool is_at_end() const { return left_.empty(); }

  private:
    std::string_view take(std::uint64_t size) {
        if (is_broken_ || size > left_.size()) {
            is_broken_ = true;
            return {};
        }
        const std::string_view taken = left_.substr(0, static_cast<std::size_t>(size));
        left_.remove_prefix(taken.size());
        return taken;
    }

    std::string_view left_;
    bool is_broken_ = false;
};

}  // namespace tidegate::limit

// Numbers and texts as bytes, for counts that another process takes over. Each number takes eight
// bytes, the lowest first; a text its length, then its bytes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidegate::store {

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

}  // namespace tidegate::store

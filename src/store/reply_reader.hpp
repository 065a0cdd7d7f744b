// Reading the packed numbers that scripts answer with. Pure; inline, as every decision reads some.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "store/resp.hpp"

namespace tidegate::store {

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

}  // namespace tidegate::store

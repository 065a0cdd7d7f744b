// Files of the time zone database, as tests make them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tidegate::test {

inline std::string big_endian(std::int64_t value, std::size_t size) {
    std::string bytes;
    for (std::size_t i = size; i > 0; --i) {
        bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * (i - 1)));
    }
    return bytes;
}

// A TZif file of version 2: the zone has the first of `offsets` (seconds east of UTC), from each
// time of `changes` on the one at that position, and after the last change the `rule`.
struct Tzif {
    std::vector<std::int32_t> offsets;
    std::vector<std::pair<std::int64_t, std::uint8_t>> changes{};
    std::string rule{};
    char version = '2';
    std::uint32_t leaps = 0;

    std::string header(bool with_data) const {
        std::string bytes = "TZif";
        bytes += version;
        bytes.append(15, '\0');
        bytes += big_endian(0, 4) + big_endian(0, 4) + big_endian(with_data ? leaps : 0, 4);
        bytes += big_endian(with_data ? static_cast<std::int64_t>(changes.size()) : 0, 4);
        bytes += big_endian(with_data ? static_cast<std::int64_t>(offsets.size()) : 1, 4);
        return bytes + big_endian(4, 4);
    }

    std::string bytes() const {
        std::string bytes = header(false) + std::string(6, '\0') + std::string("UTC\0", 4);
        bytes += header(true);
        for (const auto& [time, type] : changes) bytes += big_endian(time, 8);
        for (const auto& [time, type] : changes) bytes += static_cast<char>(type);
        for (const std::int32_t offset : offsets)
            bytes += big_endian(offset, 4) + std::string(2, '\0');
        bytes += std::string("UTC\0", 4);
        return bytes + "\n" + rule + "\n";
    }
};

inline Tzif berlin() {
    return {.offsets = {3'600, 7'200}, .rule = "CET-1CEST,M3.5.0,M10.5.0/3"};
}

}  // namespace tidegate::test

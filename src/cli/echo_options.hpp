// What a request to the echo upstream asks for in its query. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace tidegate::cli {

inline constexpr std::chrono::seconds kEchoDelayMax{60};
inline constexpr std::uint64_t kEchoBytesMax = std::uint64_t{1} << 30;

struct EchoOptions {
    int status = 200;                    // `status=404`: 200..599
    std::chrono::microseconds delay{0};  // `delay=100ms`: before the answer begins
    std::optional<std::uint64_t> bytes;  // `bytes=1000`, `bytes=1MiB`: a body of that size instead
};

// Reads the query of `target`; it ignores parameters with other names. An error is a sentence that
// says what to write.
Result<EchoOptions, std::string> read_echo_options(std::string_view target);

}  // namespace tidegate::cli

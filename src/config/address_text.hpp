// Parts of the texts that addresses and URLs have in common. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "config/config.hpp"

namespace tidegate::config {

inline constexpr std::string_view kUnix = "unix:";
inline constexpr std::string_view kLocalhost = "localhost";

// 0 to 65535, in decimal.
std::optional<std::uint16_t> parse_port(std::string_view text);

// `path` is the text behind `unix:`; `unix:///run/x` is the same path.
Result<Address, std::string> unix_address(std::string_view path);

// In lower case, without the root's dot.
std::string plain_host_name(std::string_view host);

}  // namespace tidegate::config

// The version of HTTP in which a request came. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/described_enum.hpp"

namespace tidegate {

BOOST_DEFINE_FIXED_ENUM_CLASS(HttpVersion, std::uint8_t, http_1_0, http_1_1, http_2)

inline constexpr EnumTexts<HttpVersion> kHttpVersionNumbers({{HttpVersion::http_1_0, "1.0"},
                                                             {HttpVersion::http_1_1, "1.1"},
                                                             {HttpVersion::http_2, "2.0"}});
inline constexpr EnumTexts<HttpVersion> kHttpVersionNames({{HttpVersion::http_1_0, "HTTP/1.0"},
                                                           {HttpVersion::http_1_1, "HTTP/1.1"},
                                                           {HttpVersion::http_2, "HTTP/2"}});

// `2.0`: as Via has it, and the request line of an access log.
constexpr std::string_view number_of(HttpVersion version) {
    return kHttpVersionNumbers[version];
}

// `HTTP/2`: the protocol's own name.
constexpr std::string_view name_of(HttpVersion version) {
    return kHttpVersionNames[version];
}

}  // namespace tidegate

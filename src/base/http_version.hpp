// The version of HTTP in which a request came. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace tidegate {

enum class HttpVersion : std::uint8_t { http_1_0, http_1_1, http_2 };

// `2.0`: as Via has it, and the request line of an access log.
constexpr std::string_view number_of(HttpVersion version) {
    switch (version) {
        case HttpVersion::http_1_0:
            return "1.0";
        case HttpVersion::http_1_1:
            return "1.1";
        case HttpVersion::http_2:
            break;
    }
    return "2.0";
}

// `HTTP/2`: the protocol's own name.
constexpr std::string_view name_of(HttpVersion version) {
    switch (version) {
        case HttpVersion::http_1_0:
            return "HTTP/1.0";
        case HttpVersion::http_1_1:
            return "HTTP/1.1";
        case HttpVersion::http_2:
            break;
    }
    return "HTTP/2";
}

}  // namespace tidegate

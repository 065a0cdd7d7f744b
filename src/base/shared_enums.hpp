// Enumerations that several rooms share: configuration, requests, metrics and logs name them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/described_enum.hpp"

namespace tidegate {

// The ways in which a listener is asked, as configuration, metrics and log name them.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    Face, std::uint8_t,
    proxy,         // a client's request is forwarded to an upstream
    forward_auth,  // a gateway asks whether it may forward a request
    check,         // a program asks whether it may go on
    envoy_grpc)    // Envoy asks by gRPC: its rate limit service, and external authorization

inline constexpr std::size_t kFaces = kEnumerators<Face>.size();

// The version of HTTP in which a request came.
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

// The forms of a line in the access log.
enum class LogFormat : std::uint8_t {
    json,    // one object
    text,    // the common log format, and name="value" behind it
    logfmt,  // name=value
};

}  // namespace tidegate

// The ways in which a listener is asked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/described_enum.hpp"

namespace tidegate {

// As configuration, metrics and log name it.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    Face, std::uint8_t,
    proxy,         // a client's request is forwarded to an upstream
    forward_auth,  // a gateway asks whether it may forward a request
    check,         // a program asks whether it may go on
    envoy_grpc)    // Envoy asks by gRPC: its rate limit service, and external authorization

inline constexpr std::size_t kFaces = kEnumerators<Face>.size();

}  // namespace tidegate

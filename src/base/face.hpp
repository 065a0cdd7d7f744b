// The ways in which a listener is asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidegate {

enum class Face : std::uint8_t {
    proxy,         // a client's request is forwarded to an upstream
    forward_auth,  // a gateway asks whether it may forward a request
    check,         // a program asks whether it may go on
    envoy_grpc,    // Envoy asks by gRPC: its rate limit service, and external authorization
};

inline constexpr std::size_t kFaces = 4;

// As configuration, metrics and log name it.
constexpr std::string_view to_string(Face face) {
    switch (face) {
        case Face::proxy:
            return "proxy";
        case Face::forward_auth:
            return "forward_auth";
        case Face::check:
            return "check";
        case Face::envoy_grpc:
            break;
    }
    return "envoy_grpc";
}

}  // namespace tidegate

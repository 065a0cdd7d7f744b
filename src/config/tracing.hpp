// `tracing`: which requests become spans, and where the spans go.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "base/units.hpp"
#include "config/socket_address.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate::config {

struct Tracing {
    HttpsUrl otlp;
    TlsSettings tls;                                // of an `https://` collector
    double sample = 0.01;                           // 0..1, of traces that begin here
    Rate keep_failed{10, std::chrono::seconds{1}};  // a quota of 0: none
    Rate keep_limited{1, std::chrono::seconds{1}};
    bool accept_anyone = false;  // else the traces of trusted peers are continued
    std::string service = "tidegate";
    std::string header_lines;   // whole lines of `headers`
    std::size_t queue = 8'192;  // spans

    bool operator==(const Tracing&) const = default;
};

}  // namespace tidegate::config

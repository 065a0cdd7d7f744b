// The beginning of a connection in HTTP/2 with a listener in the clear, by prior knowledge.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "net/asio.hpp"

namespace tidegate::doctor {

struct Http2Answer {
    std::string fault{};  // why nothing came, a clause; empty: something did
    std::string bytes{};  // what came first
};

struct Http2Trial {
    StreamProtocol::endpoint endpoint;
    std::string before{};  // sent first: a PROXY header
    std::chrono::milliseconds time;
};

// Connects, sends the client's preface with empty SETTINGS, reads until a frame's head is there,
// and closes. Blocks.
Http2Answer try_http2(const Http2Trial& trial);

// Whether `bytes` begin as a server does that speaks HTTP/2: with the head of SETTINGS. Pure.
bool begins_with_settings(std::string_view bytes);

}  // namespace tidegate::doctor

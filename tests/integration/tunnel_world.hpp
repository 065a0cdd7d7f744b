// What the tests of tunnels share, whatever version of HTTP their clients speak.
#pragma once

#include <string>

#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "integration/websocket.hpp"

namespace tidegate::test {

// Tunnels on every path but /plain; `more` goes into their route, `top` before everything.
inline std::string websockets(const Upstream& upstream, const std::string& more = "",
                              const std::string& top = "") {
    return top + "upstreams: {api: {servers: [" + upstream.url() +
           "], max_connections: 4000}}\nroutes:\n"
           "  - {match: {path: /plain}, policies: []}\n"
           "  - {upgrade: [websocket], policies: []" +
           more + "}\n";
}

// Tunnels on every path; the server of /r resets each one that has sent something.
inline std::string websockets_and_resets(const Upstream& upstream, const Upstream& resetting) {
    return "upstreams: {echo: {servers: [" + upstream.url() + "]}, resets: {servers: [" +
           resetting.url() +
           "]}}\nroutes:\n"
           "  - {match: {path: /r}, upstream: resets, upgrade: websocket, policies: []}\n"
           "  - {upstream: echo, upgrade: websocket, policies: []}\n";
}
inline void reset_after_some(Conversation& conversation) {
    Message request;
    if (!conversation.read(request)) return;
    conversation.send(switching_answer(request));
    conversation.some();
    conversation.reset();
}

inline double open_tunnels(const Tidegate& tidegate) {
    return tidegate.metric("tidegate_tunnels_open");
}
inline double ended(const Tidegate& tidegate, const std::string& end) {
    return tidegate.metric("tidegate_tunnels_total{end=\"" + end + "\"}");
}

}  // namespace tidegate::test

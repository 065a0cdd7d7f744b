// One health check of a server: what it sends, and what the answer says about the server.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "config/upstream.hpp"
#include "net/asio.hpp"
#include "net/timed_socket.hpp"

namespace tidegate::upstream {

struct HealthAnswer {
    // False: this process had no socket left, which says nothing about the server.
    bool could_ask = true;
    std::string fault{};     // why the server is not healthy, a clause; empty: it is healthy
    int status = 0;          // of the answer; 0: none came, or the check only connects
    std::string location{};  // where a redirect leads to
    std::chrono::nanoseconds took{0};  // until the head of the answer, or the connection, was there
};

// Connects to `endpoint`, sends the GET that `settings` describe, reads the head of the answer and
// closes the connection without the body, all within the time of `settings`. `authority` is the
// server's own, for Host. Closing `socket`, which is not open yet, ends the check. The references
// outlive the task.
Task<HealthAnswer> check_health(std::shared_ptr<TimedSocket> socket,
                                const StreamProtocol::endpoint& endpoint,
                                const std::string& authority, const config::HealthCheck& settings);

}  // namespace tidegate::upstream

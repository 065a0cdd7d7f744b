// A TLS server whose authority the process trusts, and an event loop to fetch with.
#pragma once

#include <chrono>

#include <doctest/doctest.h>

#include "net/asio.hpp"
#include "tls_server.hpp"
#include "unit/trusted_authority.hpp"

namespace tidegate::app {

using test::TrustedAuthority;

// Runs the loop until `done`, or fails the test.
template <class Done>
void run_until(asio::io_context& io, Done done) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    io.restart();
    while (!done()) {
        REQUIRE_MESSAGE(std::chrono::steady_clock::now() < give_up, "it does not come");
        io.run_one_for(std::chrono::milliseconds{5});
        if (io.stopped()) io.restart();
    }
}

// Runs what is ready, and what that makes ready.
inline void run_ready(asio::io_context& io) {
    io.restart();
    while (io.poll() > 0) {
    }
}

// Whether the loop comes to an end: nothing waits for anything any more.
inline bool runs_out(asio::io_context& io) {
    io.restart();
    io.run_for(std::chrono::seconds{10});
    return io.stopped();
}

}  // namespace tidegate::app

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

// Runs the loop for a while: for what must not happen meanwhile.
inline void run_for(asio::io_context& io, std::chrono::milliseconds time) {
    io.restart();
    io.run_for(time);
}

}  // namespace tidegate::app

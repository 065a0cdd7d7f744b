// A TLS server whose authority the process trusts, and an event loop to fetch with.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "net/asio.hpp"
#include "tls_server.hpp"

namespace tidegate::app {

// While it lives, OpenSSL takes this authority for the only one of the system. Make it before any
// thread.
class TrustedAuthority {
  public:
    TrustedAuthority() {
        std::string name = (std::filesystem::temp_directory_path() / "ca-XXXXXX").string();
        const int file = ::mkstemp(name.data());
        REQUIRE(file >= 0);
        ::close(file);
        file_ = name;
        std::ofstream(file_) << authority.pem();
        ::setenv("SSL_CERT_FILE", file_.c_str(), 1);
        ::setenv("SSL_CERT_DIR", "/nonexistent", 1);
    }
    ~TrustedAuthority() {
        ::unsetenv("SSL_CERT_FILE");
        ::unsetenv("SSL_CERT_DIR");
        std::filesystem::remove(file_);
    }
    TrustedAuthority(const TrustedAuthority&) = delete;
    TrustedAuthority& operator=(const TrustedAuthority&) = delete;

    test::Authority authority;

  private:
    std::string file_;
};

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

// A server that takes no connections and refuses none.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

namespace tidegate::test {

// A server whose queue is full: connections to it neither succeed nor fail.
class Swallowing {
  public:
    Swallowing() {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* const generic = reinterpret_cast<sockaddr*>(&address);
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        REQUIRE(::bind(listener_, generic, size) == 0);
        // A queue of none holds one; what comes after hangs.
        REQUIRE(::listen(listener_, 0) == 0);
        REQUIRE(::getsockname(listener_, generic, &size) == 0);
        port_ = ntohs(address.sin_port);
        for (int& filler : fillers_) {
            filler = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
            ::connect(filler, generic, size);
        }
    }
    ~Swallowing() {
        for (const int filler : fillers_) ::close(filler);
        ::close(listener_);
    }
    Swallowing(const Swallowing&) = delete;
    Swallowing& operator=(const Swallowing&) = delete;

    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  private:
    int listener_ = -1;
    std::array<int, 3> fillers_{};
    std::uint16_t port_ = 0;
};

}  // namespace tidegate::test

#include "free_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <deque>
#include <mutex>
#include <random>
#include <stdexcept>

namespace tidegate::test {
namespace {

// The kernel gives connections ports from 32768 on.
constexpr std::uint32_t kFirst = 12'000;
constexpr std::uint32_t kCount = 20'000;
constexpr std::size_t kHeldMax = 128;  // descriptors

// Holds a name that only one program at a time can have: -1 if another one has it.
int claim(std::uint16_t port) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // The zero byte before it: a name without a file, which ends with the program.
    const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                                     "tidegate-test-%u", static_cast<unsigned>(port));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1) +
                      static_cast<socklen_t>(length);
    if (fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
    if (fd >= 0) ::close(fd);
    return -1;
}

bool is_free(std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    // As servers do: connections that have ended do not count.
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(port);
    const bool bound =
        ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::listen(fd, 1) == 0;
    ::close(fd);
    return bound;
}

}  // namespace

std::uint16_t free_port() {
    static std::mutex mutex;
    static std::deque<int> held;
    static std::uint32_t next = std::random_device{}();
    const std::lock_guard lock(mutex);
    for (std::uint32_t tries = 0; tries < kCount; ++tries) {
        const auto port = static_cast<std::uint16_t>(kFirst + next++ % kCount);
        const int fd = claim(port);
        if (fd < 0) continue;
        if (!is_free(port)) {
            ::close(fd);
            continue;
        }
        held.push_back(fd);
        if (held.size() > kHeldMax) {
            ::close(held.front());
            held.pop_front();
        }
        return port;
    }
    throw std::runtime_error("no port is free");
}

}  // namespace tidegate::test

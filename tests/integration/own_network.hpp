// Ports that a test cannot choose, as the program has them fixed.
#pragma once

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <exception>
#include <functional>
#include <thread>

#include <doctest/doctest.h>

#include "integration/socket.hpp"

namespace tidegate::test {

// Gives this thread, and what it starts, a loopback of its own. False: not permitted here.
inline bool enter_own_network() {
    if (::unshare(CLONE_NEWNET) != 0) return false;
    const int descriptor = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const Socket socket(descriptor);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    return ::ioctl(descriptor, SIOCSIFFLAGS, &request) == 0;
}

// Runs `test` in a thread on a loopback of its own, where every port is free, whatever else runs on
// this machine. Where that is not permitted, it says so, and runs nothing.
inline void in_own_network(const std::function<void()>& test) {
    bool is_own = false;
    std::exception_ptr failure;
    std::thread([&] {
        try {
            is_own = enter_own_network();
            if (is_own) test();
        } catch (...) {
            failure = std::current_exception();
        }
    }).join();
    if (failure) std::rethrow_exception(failure);
    if (!is_own) MESSAGE("not tested: no network namespace is permitted here");
}

}  // namespace tidegate::test

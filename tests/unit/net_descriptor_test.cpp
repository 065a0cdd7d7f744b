#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <utility>

#include <doctest/doctest.h>

#include "failing_memory.hpp"
#include "net/connection.hpp"
#include "tls_peer.hpp"

namespace tidegate::net_descriptor_test {

namespace {

bool is_open(int number) {
    return ::fcntl(number, F_GETFD) >= 0;
}

int new_descriptor() {
    const int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    REQUIRE(number >= 0);
    return number;
}

}  // namespace

TEST_CASE("descriptor: it is closed with its last owner, and when another takes its place") {
    const int first = new_descriptor();
    const int second = new_descriptor();
    {
        Descriptor owner{first};
        Descriptor next = std::move(owner);
        CHECK_FALSE(owner);
        CHECK(next.get() == first);
        next = Descriptor(second);
        CHECK_FALSE(is_open(first));
        CHECK(is_open(second));
    }
    CHECK_FALSE(is_open(second));
}

TEST_CASE("descriptor: what is released stays open") {
    const int number = new_descriptor();
    { CHECK(Descriptor(number).release() == number); }
    REQUIRE(is_open(number));
    ::close(number);
}

TEST_CASE("connection: a socket for which there is no memory is closed") {
    asio::io_context io{1};
    Readiness readiness{io};
    const test::StreamPair pair;
    const Descriptor far(pair.ends[1]);
    const int number = pair.ends[0];
    const int failed = test::fail_each_allocation(
        [&, accepted = Descriptor(number)]() mutable {
            Descriptor descriptor = std::move(accepted);
            const ConnectionPtr connection(new Connection(readiness, std::move(descriptor)));
        },
        [&] { CHECK_FALSE(is_open(number)); });
    CHECK(failed == 1);
}

}  // namespace tidegate::net_descriptor_test

#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "client/connection_rate.hpp"

namespace tidegate::client_connection_rate_test {

using client::ConnectionRate;

namespace {

using namespace std::chrono_literals;

IpAddress numbered(std::uint32_t number) {
    IpAddress address;
    address.bytes = {10, static_cast<std::uint8_t>(number >> 16),
                     static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)};
    return address;
}

// How many of `tries` connections at once are admitted.
int admitted(ConnectionRate& rate, const IpAddress& address, std::uint32_t per_second,
             SteadyTime now, int tries = 100) {
    int sum = 0;
    for (int i = 0; i < tries; ++i) sum += rate.admit(address, per_second, now) ? 1 : 0;
    return sum;
}

const SteadyTime kStart{1h};

}  // namespace

TEST_CASE("connection_rate: an address opens those of one second at once, then at the rate") {
    ConnectionRate rate;
    CHECK(admitted(rate, numbered(1), 20, kStart) == 20);
    CHECK(admitted(rate, numbered(1), 20, kStart + 49ms) == 0);
    CHECK(admitted(rate, numbered(1), 20, kStart + 50ms) == 1);
    CHECK(admitted(rate, numbered(1), 20, kStart + 550ms) == 10);
    CHECK(admitted(rate, numbered(1), 20, kStart + 1h) == 20);
}

TEST_CASE("connection_rate: a refused connection takes nothing, however many are tried") {
    ConnectionRate rate;
    CHECK(admitted(rate, numbered(1), 1, kStart, 10'000) == 1);
    CHECK(admitted(rate, numbered(1), 1, kStart + 999ms, 10'000) == 0);
    CHECK(admitted(rate, numbered(1), 1, kStart + 1s) == 1);
}

TEST_CASE("connection_rate: addresses do not share a bucket") {
    ConnectionRate rate;
    CHECK(admitted(rate, numbered(1), 5, kStart) == 5);
    CHECK(admitted(rate, numbered(2), 5, kStart) == 5);
    IpAddress v6 = numbered(1);
    v6.v4 = false;
    v6.bytes[15] = 1;
    CHECK(admitted(rate, v6, 5, kStart) == 5);
}

TEST_CASE("connection_rate: another rate holds from the next connection on") {
    ConnectionRate rate;
    CHECK(admitted(rate, numbered(1), 10, kStart) == 10);
    CHECK(admitted(rate, numbered(1), 1'000, kStart + 10ms) == 10);
    CHECK(admitted(rate, numbered(1), 1, kStart + 1s) == 0);
    CHECK(admitted(rate, numbered(1), 1, kStart + 1'010ms) == 1);
    CHECK(admitted(rate, numbered(2), UINT32_MAX, kStart, 1'000) == 1'000);
}

TEST_CASE("connection_rate: a flood of addresses that pays no second visit frees no heavy one") {
    ConnectionRate rate;
    const IpAddress heavy = numbered(0xFFFFFF);
    REQUIRE(admitted(rate, heavy, 20, kStart) == 20);
    // Ten times what there is room for, one connection each: the emptiest bucket stays.
    for (std::uint32_t i = 0; i < 10 * ConnectionRate::kAddresses; ++i) {
        rate.admit(numbered(i), 20, kStart);
    }
    CHECK(admitted(rate, heavy, 20, kStart) == 0);
}

}  // namespace tidegate::client_connection_rate_test

#include <string>

#include <doctest/doctest.h>

#include "base/heavy_hitters.hpp"

namespace tidegate::base_heavy_hitters_test {

namespace {

IpAddress ip(int last) {
    return *parse_ip("192.0.2." + std::to_string(last));
}

}  // namespace

TEST_CASE("crowds: three addresses above a quarter are found, in any order, among many others") {
    for (const int step : {1, 7, 33, 99}) {
        CAPTURE(step);
        // Of a hundred: 26 each of three addresses, and 22 that come once.
        HeavyHitters crowds;
        for (int i = 0; i < 100; ++i) {
            const int at = i * step % 100;
            crowds.add(ip(at < 78 ? at % 3 : at));
        }
        for (const int crowd : {0, 1, 2}) CHECK(crowds.contains(ip(crowd)));
        crowds.erase_if([](const IpAddress& address) { return address != ip(1); });
        CHECK(crowds.contains(ip(1)));
        CHECK_FALSE(crowds.contains(ip(0)));
    }
}

TEST_CASE("crowds: an empty list has none") {
    CHECK_FALSE(HeavyHitters().contains(ip(0)));
    CHECK_FALSE(HeavyHitters().contains({}));
}

}  // namespace tidegate::base_heavy_hitters_test

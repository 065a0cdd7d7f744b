#include <chrono>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "ask/network_notices.hpp"

namespace tidegate::ask::network_notices_test {
namespace {

using namespace std::chrono_literals;
using Time = NetworkNotices::Time;

std::string network_text(const char* address) {
    const IpNetwork network = noticed_network(*parse_ip(address));
    return network.address.to_string() + "/" + std::to_string(network.prefix);
}

TEST_CASE("network notices: a network is a /24 or a /64") {
    CHECK(network_text("192.0.2.77") == "192.0.2.0/24");
    CHECK(network_text("::ffff:192.0.2.77") == "192.0.2.0/24");
    CHECK(network_text("2001:db8:1:2:3::4") == "2001:db8:1:2::/64");
}

TEST_CASE("network notices: each network has one an hour") {
    NetworkNotices notices;
    const Time start{5s};
    CHECK(notices.is_due(parse_ip("192.0.2.1"), start));
    CHECK_FALSE(notices.is_due(parse_ip("192.0.2.1"), start));
    CHECK_FALSE(notices.is_due(parse_ip("192.0.2.200"), start + 59min));
    CHECK(notices.is_due(parse_ip("192.0.3.1"), start + 59min));
    CHECK(notices.is_due(parse_ip("2001:db8::1"), start));
    CHECK_FALSE(notices.is_due(parse_ip("2001:db8::2"), start));
    CHECK(notices.is_due(std::nullopt, start));
    CHECK_FALSE(notices.is_due(std::nullopt, start + 1s));
    CHECK(notices.is_due(parse_ip("192.0.2.2"), start + 1h));
    CHECK_FALSE(notices.is_due(parse_ip("192.0.3.1"), start + 1h));
}

TEST_CASE("network notices: a crowd of networks fills the table, and its places come back") {
    NetworkNotices notices;
    const Time start{5s};
    int told = 0;
    for (int i = 0; i < 1'000; ++i) {
        const std::string address =
            "10." + std::to_string(i / 250) + "." + std::to_string(i % 250) + ".1";
        told += notices.is_due(parse_ip(address), start) ? 1 : 0;
    }
    CHECK(told == NetworkNotices::kNetworksMax);
    CHECK_FALSE(notices.is_due(parse_ip("192.0.2.1"), start + 59min));
    CHECK(notices.is_due(parse_ip("192.0.2.1"), start + 1h));
    CHECK_FALSE(notices.is_due(parse_ip("192.0.2.1"), start + 1h));
}

}  // namespace
}  // namespace tidegate::ask::network_notices_test

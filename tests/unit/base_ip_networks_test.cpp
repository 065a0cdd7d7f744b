#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/ip_networks.hpp"

namespace tidegate::base_ip_networks_test {

namespace {

IpNetworks networks(const std::vector<std::string_view>& texts) {
    std::vector<IpNetwork> all;
    for (const std::string_view text : texts) all.push_back(*parse_network(text));
    return IpNetworks(std::move(all));
}

// An address near others: few of its bytes vary.
IpAddress near(std::mt19937& random, bool v4) {
    IpAddress ip;
    ip.v4 = v4;
    const std::size_t count = v4 ? 4 : 16;
    for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        ip.bytes[at] = static_cast<std::uint8_t>(random() % 4 * 0x55);
    }
    return ip;
}

}  // namespace

TEST_CASE("ip networks: an address is in the list if a network of it contains the address") {
    const IpNetworks list =
        networks({"10.0.0.0/8", "10.1.0.0/16", "192.0.2.7", "192.0.2.8", "2001:db8::/32", "::1"});
    for (const std::string_view text : {"10.0.0.0", "10.1.2.3", "10.255.255.255", "192.0.2.7",
                                        "192.0.2.8", "2001:db8:ffff::1", "::1"}) {
        CHECK_MESSAGE(list.contains(*parse_ip(text)), text);
    }
    for (const std::string_view text : {"9.255.255.255", "11.0.0.0", "192.0.2.6", "192.0.2.9",
                                        "0.0.0.0", "255.255.255.255", "::", "::2", "2001:db9::"}) {
        CHECK_MESSAGE(!list.contains(*parse_ip(text)), text);
    }
    CHECK_FALSE(IpNetworks().contains(*parse_ip("10.0.0.1")));
}

TEST_CASE("ip networks: all addresses of one version are none of the other") {
    CHECK(networks({"0.0.0.0/0"}).contains(*parse_ip("255.255.255.255")));
    CHECK_FALSE(networks({"0.0.0.0/0"}).contains(*parse_ip("::")));
    CHECK(networks({"::/0"}).contains(*parse_ip("ffff::ffff")));
    CHECK_FALSE(networks({"::/0"}).contains(*parse_ip("0.0.0.0")));
}

TEST_CASE("ip networks: people see the first network as it is written") {
    const IpNetworks list = networks({"10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0"});
    CHECK(*list.find(*parse_ip("10.1.2.3")) == *parse_network("10.0.0.0/8"));
    CHECK(*list.find(*parse_ip("11.1.2.3")) == *parse_network("0.0.0.0/0"));
    CHECK(list.find(*parse_ip("::1")) == nullptr);
    CHECK(list.size() == 3);
    CHECK(*list.begin() == *parse_network("10.0.0.0/8"));
}

TEST_CASE("ip networks: the search finds what comparing with each finds") {
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        std::vector<IpNetwork> all;
        for (unsigned i = random() % 20; i > 0; --i) {
            const bool v4 = random() % 2 == 0;
            const int prefix = static_cast<int>(random() % (v4 ? 33 : 129));
            IpNetwork network{near(random, v4), prefix};
            for (int bit = prefix; bit < (v4 ? 32 : 128); ++bit) {
                network.address.bytes[static_cast<std::size_t>(bit / 8)] &=
                    static_cast<std::uint8_t>(~(0x80 >> bit % 8));
            }
            all.push_back(network);
        }
        const IpNetworks list(all);
        for (int i = 0; i < 50; ++i) {
            const IpAddress ip = near(random, random() % 2 == 0);
            CHECK(list.contains(ip) == (list.find(ip) != nullptr));
        }
    }
}

}  // namespace tidegate::base_ip_networks_test

#include <arpa/inet.h>

#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/ip.hpp"

namespace tidegate::base_ip_test {

namespace {

std::string text_of(std::string_view text) {
    const auto ip = parse_ip(text);
    return ip ? ip->to_string() : "-";
}

IpAddress ip_of(std::string_view text) {
    const auto ip = parse_ip(text);
    REQUIRE_MESSAGE(ip, text);
    return *ip;
}

IpNetwork network_of(std::string_view text) {
    const auto network = parse_network(text);
    REQUIRE_MESSAGE(network, text);
    return *network;
}

TEST_CASE("ip: IPv4 has four decimal numbers and one spelling") {
    for (const char* text : {"0.0.0.0", "1.2.3.4", "127.0.0.1", "203.0.113.7", "255.255.255.255"})
        CHECK(text_of(text) == text);
    for (const char* text :
         {"",         ".",         "1",          "1.2.3",     "1.2.3.",     ".1.2.3",
          "1.2.3.4.", "1.2.3.4.5", "1..2.3",     "256.0.0.1", "1.2.3.1000", "01.2.3.4",
          "1.2.3.00", "0x1.2.3.4", "1.2.3.4 ",   " 1.2.3.4",  "1.2.3.-4",   "1.2.3.+4",
          "1,2,3,4",  "127.1",     "2130706433", "1.2.3.4/8", "1.2.3.4:80", "1.2.3.a"})
        CHECK_MESSAGE(text_of(text) == "-", text);
}

TEST_CASE("ip: IPv6 is written as RFC 5952 says, whatever way it came") {
    CHECK(text_of("2001:DB8:0:0:1:0:0:1") == "2001:db8::1:0:0:1");  // the first of equal runs
    CHECK(text_of("2001:0db8:0000:0000:0000:0000:0000:0001") == "2001:db8::1");
    CHECK(text_of("2001:db8:0:1:1:1:1:1") == "2001:db8:0:1:1:1:1:1");  // one group is no run
    CHECK(text_of("2001:0:0:1:0:0:0:1") == "2001:0:0:1::1");           // the longest run
    CHECK(text_of("::") == "::");
    CHECK(text_of("::1") == "::1");
    CHECK(text_of("1::") == "1::");
    CHECK(text_of("1:2:3:4:5:6:7::") == "1:2:3:4:5:6:7:0");
    CHECK(text_of("::2:3:4:5:6:7:8") == "0:2:3:4:5:6:7:8");
    CHECK(text_of("64:ff9b::192.0.2.33") == "64:ff9b::c000:221");
    CHECK(text_of("FE80::A") == "fe80::a");
    CHECK(text_of("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff") ==
          "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

TEST_CASE("ip: what is not quite IPv6 is refused") {
    for (const char* text : {":",
                             ":::",
                             "1:",
                             ":1",
                             "1:2:3:4:5:6:7",
                             "1:2:3:4:5:6:7:8:9",
                             "1::2::3",
                             "12345::",
                             "g::",
                             "1:2:3:4::5:6:7:8",
                             "1:2:3:4:5:6:7:8::",
                             "::1%eth0",
                             "[::1]",
                             "::1/64",
                             "::1.2.3",
                             "::1.2.3.04",
                             "1:2:3:4:5:6:7:1.2.3.4",
                             "1.2.3.4::",
                             "::1.2.3.4:5",
                             "1::2:",
                             "::1 ",
                             " ::1",
                             "1:2:3:4:5:6:7:",
                             ":1:2:3:4:5:6:7",
                             "::0x1"})
        CHECK_MESSAGE(text_of(text) == "-", text);
    CHECK(text_of(std::string_view("::1\0", 4)) == "-");
}

TEST_CASE("ip: an IPv4-mapped address is IPv4 in all its spellings") {
    for (const char* text : {"::ffff:203.0.113.7", "::FFFF:cb00:7107", "0:0:0:0:0:ffff:cb00:7107",
                             "0:0:0:0:0:ffff:203.0.113.7"}) {
        const auto ip = parse_ip(text);
        REQUIRE(ip);
        CHECK(ip->v4);
        CHECK(*ip == ip_of("203.0.113.7"));
        CHECK(ip->to_string() == "203.0.113.7");
    }
    CHECK_FALSE(ip_of("::203.0.113.7").v4);
    CHECK_FALSE(ip_of("::fffe:203.0.113.7").v4);
    CHECK_FALSE(ip_of("1::ffff:203.0.113.7").v4);
}

TEST_CASE("ip: only 0.0.0.0 and :: are unspecified") {
    CHECK(ip_of("0.0.0.0").is_unspecified());
    CHECK(ip_of("::").is_unspecified());
    CHECK(ip_of("::ffff:0.0.0.0").is_unspecified());
    CHECK_FALSE(ip_of("0.0.0.1").is_unspecified());
    CHECK_FALSE(ip_of("::1").is_unspecified());
    CHECK_FALSE(ip_of("8000::").is_unspecified());
}

TEST_CASE("ip: an IPv6 address may have a zone, which is dropped") {
    const auto scoped = [](std::string_view text) {
        const auto ip = parse_scoped_ip(text);
        return ip ? ip->to_string() : "-";
    };
    for (const char* zone : {"eth0", "2", "Eth0", "a", "br-0.7_x", "25eth0",
                             "a-name-that-no-link-of-this-machine-could-have"}) {
        CAPTURE(zone);
        CHECK(scoped("fe80::1%" + std::string(zone)) == "fe80::1");
        CHECK(scoped("2001:DB8::0:1%" + std::string(zone)) == "2001:db8::1");
        CHECK(scoped("::ffff:203.0.113.7%" + std::string(zone)) == "203.0.113.7");
    }
    for (const char* text : {"fe80::1", "203.0.113.7", "2001:db8::1"}) CHECK(scoped(text) == text);
    for (const char* text : {"fe80::1%", "%eth0", "fe80::1%a%b", "fe80::1%a/64", "fe80::1%a:b",
                             "fe80::1% a", "fe80::1%a\n", "fe80::1%{a}", "fe80::1%\x80",
                             "203.0.113.7%eth0", "254.128.0.1%eth0", "fe80:1%eth0"}) {
        CHECK_MESSAGE(scoped(text) == "-", text);
    }
    CHECK(scoped(std::string_view("fe80::1%a\0b", 11)) == "-");
    CHECK(*parse_scoped_ip("fe80::1%a") == *parse_scoped_ip("fe80:0::1%b"));
    CHECK_FALSE(*parse_scoped_ip("fe80::1%a") == *parse_scoped_ip("fe80::2%a"));
}

TEST_CASE("ip: a network has no zone, and holds its addresses on every link") {
    const IpAddress ip = *parse_scoped_ip("fe80::1:2%eth0");
    CHECK(network_of("fe80::/10").contains(ip));
    CHECK(network_of("fe80::1:2").contains(ip));
    CHECK_FALSE(network_of("fe80::1:3").contains(ip));
    CHECK_FALSE(parse_network("fe80::%eth0/10"));
    CHECK_FALSE(parse_network("fe80::/10%eth0"));
    CHECK_FALSE(parse_network("fe80::1%eth0"));
}

TEST_CASE("ip: text is appended without allocating when there is room") {
    std::string out = "ip:";
    out.reserve(64);
    const char* const before = out.data();
    ip_of("1111:2222:3333:4444:5555:6666:7777:8888").append_to(out);
    CHECK(out == "ip:1111:2222:3333:4444:5555:6666:7777:8888");
    CHECK(out.data() == before);
    out.clear();
    ip_of("255.255.255.255").append_to(out);
    CHECK(out == "255.255.255.255");
    CHECK(out.data() == before);
}

// Texts that are nearly addresses: parts of addresses put together at random.
std::string random_text(std::mt19937& random) {
    static const char* const kParts[] = {"0",  "1",  "ffff", "12345", "a0",  ":",  "::",  ".",
                                         "1:", "2:", "255",  "256",   "01",  "1.", "00.", "%",
                                         "g",  "]",  "10",   "3:",    "ff:", "0:", "9.",  ":f"};
    std::string text;
    for (auto parts = random() % 12; parts > 0; --parts)
        text += kParts[random() % std::size(kParts)];
    return text;
}

TEST_CASE("ip: random texts are read exactly as inet_pton reads them") {
    std::mt19937 random(20240229);
    int valid = 0;
    for (int i = 0; i < 200'000; ++i) {
        const std::string text = random_text(random);
        std::array<std::uint8_t, 16> expected{};
        const bool v4 = inet_pton(AF_INET, text.c_str(), expected.data()) == 1;
        const bool v6 = !v4 && inet_pton(AF_INET6, text.c_str(), expected.data()) == 1;
        const auto ip = parse_ip(text);
        REQUIRE_MESSAGE(ip.has_value() == (v4 || v6), text);
        if (!ip) continue;
        ++valid;
        if (ip->v4 == v4) REQUIRE_MESSAGE(ip->bytes == expected, text);
    }
    CHECK(valid > 1'000);
}

TEST_CASE("ip: any address survives its own text, and the text is the one inet_ntop writes") {
    std::mt19937 random(7);
    for (int i = 0; i < 50'000; ++i) {
        IpAddress ip;
        ip.v4 = random() % 4 == 0;
        // Many zero bytes, so that runs of all lengths occur.
        for (std::size_t b = 0; b < (ip.v4 ? 4U : 16U); ++b)
            ip.bytes[b] = random() % 3 == 0 ? static_cast<std::uint8_t>(random()) : std::uint8_t{0};
        if (!ip.v4) ip.bytes[0] = 0x20;  // neither mapped nor IPv4-compatible
        const std::string text = ip.to_string();
        REQUIRE_MESSAGE(parse_ip(text) == ip, text);
        char expected[INET6_ADDRSTRLEN];
        REQUIRE(inet_ntop(ip.v4 ? AF_INET : AF_INET6, ip.bytes.data(), expected, sizeof expected));
        REQUIRE(text == expected);
    }
}

TEST_CASE("ip: a network holds the addresses that share its prefix") {
    const IpNetwork ten = network_of("10.0.0.0/8");
    CHECK(ten.contains(ip_of("10.0.0.0")));
    CHECK(ten.contains(ip_of("10.255.255.255")));
    CHECK(ten.contains(ip_of("::ffff:10.1.2.3")));
    CHECK_FALSE(ten.contains(ip_of("11.0.0.0")));
    CHECK_FALSE(ten.contains(ip_of("a00::")));

    const IpNetwork odd = network_of("2001:db8:8000::/33");
    CHECK(odd.contains(ip_of("2001:db8:ffff::1")));
    CHECK_FALSE(odd.contains(ip_of("2001:db8:7fff::1")));

    CHECK(network_of("0.0.0.0/0").contains(ip_of("203.0.113.7")));
    CHECK_FALSE(network_of("0.0.0.0/0").contains(ip_of("::1")));
    CHECK(network_of("::/0").contains(ip_of("2001:db8::1")));
    CHECK_FALSE(network_of("::/0").contains(ip_of("203.0.113.7")));
    CHECK(network_of("203.0.113.7").contains(ip_of("203.0.113.7")));
    CHECK_FALSE(network_of("203.0.113.7").contains(ip_of("203.0.113.6")));
    CHECK_FALSE(network_of("2001:db8::1/128").contains(ip_of("2001:db8::")));
    CHECK_FALSE(network_of("203.0.113.6/31").contains(ip_of("203.0.113.8")));
}

TEST_CASE("ip: a network written as IPv4-mapped is the IPv4 network") {
    const IpNetwork network = network_of("::ffff:10.0.0.0/104");
    CHECK(network.prefix == 8);
    CHECK(network.contains(ip_of("10.9.9.9")));
    CHECK_FALSE(parse_network("::ffff:10.0.0.0/8"));
}

TEST_CASE("ip: a network with stray bits or an odd prefix is refused") {
    for (const char* text :
         {"10.0.0.1/8", "2001:db8::1/64", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1",
          "10.0.0.0/08", "10.0.0.0/8 ", "10.0.0.0/+8", "10.0.0.0/8/8", "/8", "", "10.0.0/8",
          "10.0.0.0/99999999999999999999", "128.0.0.0/0"})
        CHECK_MESSAGE(!parse_network(text), text);
}

TEST_CASE("ip: a refused network comes with advice, if it has an address") {
    CHECK(advice_about_network("10.1.2.3/8") == "write `10.0.0.0/8`");
    CHECK(advice_about_network("10.255.255.255/9") == "write `10.128.0.0/9`");
    CHECK(advice_about_network("2001:db8::1/64") == "write `2001:db8::/64`");
    CHECK(advice_about_network("128.0.0.0/0") == "write `0.0.0.0/0`");
    CHECK(advice_about_network("::ffff:10.0.0.1/104") == "write `10.0.0.0/8`");
    CHECK(advice_about_network("10.0.0.1/33") == "an IPv4 prefix is 0 to 32");
    CHECK(advice_about_network("::ffff:10.0.0.0/8") == "an IPv4 prefix is 0 to 32");
    CHECK(advice_about_network("::/129") == "an IPv6 prefix is 0 to 128");
    for (const char* text : {"foo", "", "/8", "10.0.0/8", "10.0.0.0/", "10.0.0.0/08"}) {
        CHECK_MESSAGE(advice_about_network(text).empty(), text);
    }
}

TEST_CASE("ip: a mask keeps the first bits of IPv6 and leaves IPv4 alone") {
    const IpAddress ip = ip_of("2001:db8:1234:5678:9abc:def0:1234:5678");
    CHECK(masked(ip, 64).to_string() == "2001:db8:1234:5678::");
    CHECK(masked(ip, 56).to_string() == "2001:db8:1234:5600::");
    CHECK(masked(ip, 61).to_string() == "2001:db8:1234:5678::");
    CHECK(masked(ip, 60).to_string() == "2001:db8:1234:5670::");
    CHECK(masked(ip, 0).to_string() == "::");
    CHECK(masked(ip, 128) == ip);
    CHECK(masked(ip, 127).to_string() == "2001:db8:1234:5678:9abc:def0:1234:5678");
    CHECK(masked(ip_of("203.0.113.7"), 8).to_string() == "203.0.0.0");
    CHECK(masked(ip_of("203.0.113.7"), 26).to_string() == "203.0.113.0");
    CHECK(masked(ip_of("203.0.113.7"), 31).to_string() == "203.0.113.6");
    CHECK(masked(ip_of("203.0.113.7"), 0).to_string() == "0.0.0.0");
    CHECK(masked(ip_of("203.0.113.7"), 32).to_string() == "203.0.113.7");
    CHECK(masked(ip_of("203.0.113.7"), 64).to_string() == "203.0.113.7");
    const IpPrefixes prefixes{{32, 24}, {64, 48, 56}};
    CHECK(prefixes.widest(ip_of("203.0.113.7")).to_string() == "203.0.113.0");
    CHECK(prefixes.widest(ip).to_string() == "2001:db8:1234::");
}

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

IpAddress ip(int last) {
    return *parse_ip("192.0.2." + std::to_string(last));
}

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

}  // namespace

}  // namespace tidegate::base_ip_test

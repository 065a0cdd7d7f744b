#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "identity/client_ip.hpp"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t size) {
    ++allocations;
    if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
    throw std::bad_alloc();
}
// A library that calls it would bring the one of failing_memory.cpp, and with it all others.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return std::malloc(size > 0 ? size : 1);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace tidegate::identity::client_ip_test {
namespace {

using Source = ClientIpSettings::Source;
using Pairs = std::vector<std::pair<std::string_view, std::string_view>>;

http::Fields fields_of(const Pairs& pairs) {
    http::Fields fields;
    for (const auto& [name, value] : pairs) fields.push_back({http::field_name(name), name, value});
    return fields;
}

ClientIpSettings settings_of(Source source, std::string single = {}) {
    ClientIpSettings settings;
    settings.trusted_proxies = {*parse_network("10.0.0.0/8"), *parse_network("2001:db8:f::/48")};
    settings.source = source;
    settings.single_field = std::move(single);
    return settings;
}

Peer peer_of(std::string_view address, const ClientIpSettings& settings) {
    const auto ip = parse_ip(address);
    REQUIRE(ip);
    return {ip, settings.trusts(*ip)};
}

std::string text_of(const std::optional<IpAddress>& ip) {
    return ip ? ip->to_string() : "nobody";
}

// The client behind the trusted proxy 10.0.0.1.
std::string client(const Pairs& pairs, const ClientIpSettings& settings) {
    return text_of(client_address(peer_of("10.0.0.1", settings), fields_of(pairs), settings));
}

std::string xff(std::string_view value) {
    return client({{"X-Forwarded-For", value}}, settings_of(Source::x_forwarded_for));
}

std::string forwarded(std::string_view value) {
    return client({{"Forwarded", value}}, settings_of(Source::forwarded));
}

TEST_CASE("client_ip: without trusted proxies nothing a request says is believed") {
    const ClientIpSettings settings;
    const auto fields =
        fields_of({{"X-Forwarded-For", "192.0.2.1"}, {"Forwarded", "for=192.0.2.1"}});
    CHECK(text_of(client_address(peer_of("203.0.113.7", settings), fields, settings)) ==
          "203.0.113.7");
    CHECK(text_of(client_address(peer_of("10.0.0.1", settings), fields, settings)) == "10.0.0.1");
}

TEST_CASE("client_ip: a peer that is not trusted is the client") {
    const auto settings = settings_of(Source::x_forwarded_for);
    const auto fields = fields_of({{"X-Forwarded-For", "192.0.2.1"}});
    CHECK(text_of(client_address(peer_of("203.0.113.7", settings), fields, settings)) ==
          "203.0.113.7");
}

TEST_CASE("client_ip: a Unix socket is trusted only if its listener says so") {
    const auto settings = settings_of(Source::x_forwarded_for);
    const auto fields = fields_of({{"X-Forwarded-For", "203.0.113.7"}});
    CHECK(text_of(client_address({std::nullopt, false}, fields, settings)) == "nobody");
    CHECK(text_of(client_address({std::nullopt, true}, fields, settings)) == "203.0.113.7");
    CHECK(text_of(client_address({std::nullopt, true}, {}, settings)) == "nobody");
    CHECK(text_of(client_address({std::nullopt, true}, fields_of({{"X-Forwarded-For", "unix:"}}),
                                 settings)) == "nobody");
}

TEST_CASE("client_ip: the chain is walked from the right to the first hop not trusted") {
    CHECK(xff("203.0.113.7") == "203.0.113.7");
    CHECK(xff("192.0.2.1, 203.0.113.7") == "203.0.113.7");
    CHECK(xff("192.0.2.1, 203.0.113.7, 10.0.0.3, 10.0.0.2") == "203.0.113.7");
    CHECK(xff("192.0.2.1,203.0.113.7,2001:db8:f::1") == "203.0.113.7");
    CHECK(xff("10.0.0.9, 10.0.0.3") == "10.0.0.9");  // all trusted: the leftmost
    CHECK(client({}, settings_of(Source::x_forwarded_for)) == "10.0.0.1");
}

TEST_CASE("client_ip: the walk stops at what cannot be read, with the last good hop") {
    for (const char* bad : {"",
                            "unknown",
                            "_hidden",
                            "localhost",
                            "0.0.0.0",
                            "::",
                            "[::]",
                            "::ffff:0.0.0.0",
                            "203.0.113.07",
                            "203.0.113",
                            "0x7f.0.0.1",
                            "203.0.113.7:",
                            "203.0.113.7:65536",
                            "203.0.113.7:8a",
                            "203.0.113.7:-1",
                            "[203.0.113.7]",
                            "[2001:db8::7",
                            "2001:db8::7]",
                            "[2001:db8::7]x",
                            "[2001:db8::7]:",
                            "[]",
                            "[]:80",
                            "203.0.113.7%eth0",
                            "::%eth0",
                            "fe80::7%",
                            "fe80::7%eth0%eth0",
                            "fe80::7%eth0]",
                            "fe80::7%eth0:80",
                            "fe80::7%eth 0",
                            "fe80::7%eth{0}",
                            "fe80::7%\xc3\xa9th0",
                            "[fe80::7%]",
                            "[fe80::7]%eth0",
                            "\"203.0.113.7\"",
                            "for=203.0.113.7",
                            "203.0.113.7 192.0.2.1",
                            "203.0.113.7;80",
                            "203.0.113.7/32",
                            "\x01",
                            "203.0.113.7\x01"}) {
        const std::string chain = std::string("192.0.2.1, ") + bad + ", 10.0.0.2";
        CHECK_MESSAGE(xff(chain) == "10.0.0.2", chain);
        CHECK_MESSAGE(xff(bad) == "10.0.0.1", bad);
    }
    CHECK(xff("203.0.113.7,") == "10.0.0.1");
    CHECK(xff(",,,") == "10.0.0.1");
}

TEST_CASE("client_ip: any spelling of an address is one address") {
    for (const char* spelling :
         {"203.0.113.7", " 203.0.113.7", "\t203.0.113.7 \t", "203.0.113.7:4711", "203.0.113.7:0",
          "::ffff:203.0.113.7", "[::ffff:203.0.113.7]", "[::FFFF:cb00:7107]:80"})
        CHECK_MESSAGE(xff(spelling) == "203.0.113.7", spelling);
    for (const char* spelling : {"2001:db8::7", "2001:DB8:0:0:0:0:0:7", "[2001:db8::7]",
                                 "[2001:db8::0:7]:65535", " [2001:0db8::7] "})
        CHECK_MESSAGE(xff(spelling) == "2001:db8::7", spelling);
}

TEST_CASE("client_ip: several fields are one chain in their order") {
    const auto settings = settings_of(Source::x_forwarded_for);
    CHECK(client({{"X-Forwarded-For", "192.0.2.1"},
                  {"Host", "a"},
                  {"x-forwarded-for", "203.0.113.7, 10.0.0.3"},
                  {"X-Forwarded-For", "10.0.0.2"}},
                 settings) == "203.0.113.7");
    CHECK(client({{"X-Forwarded-For", "203.0.113.7"}, {"X-Forwarded-For", ""}}, settings) ==
          "10.0.0.1");
}

TEST_CASE("client_ip: only the configured field is read") {
    const Pairs pairs = {{"X-Forwarded-For", "192.0.2.1"},
                         {"Forwarded", "for=192.0.2.2"},
                         {"CF-Connecting-IP", "192.0.2.3"}};
    CHECK(client(pairs, settings_of(Source::x_forwarded_for)) == "192.0.2.1");
    CHECK(client(pairs, settings_of(Source::forwarded)) == "192.0.2.2");
    CHECK(client(pairs, settings_of(Source::single, "cf-connecting-ip")) == "192.0.2.3");
}

TEST_CASE("client_ip: a single-address field must occur once and hold one address") {
    const auto settings = settings_of(Source::single, "cf-connecting-ip");
    const auto one = [&](std::string_view value) {
        return client({{"CF-Connecting-IP", value}}, settings);
    };
    CHECK(one("203.0.113.7") == "203.0.113.7");
    CHECK(one("[2001:db8::7]:80") == "2001:db8::7");
    CHECK(one("10.0.0.9") == "10.0.0.9");
    CHECK(one("203.0.113.7, 203.0.113.7") == "10.0.0.1");
    CHECK(one("0.0.0.0") == "10.0.0.1");
    CHECK(one("") == "10.0.0.1");
    CHECK(client({{"CF-Connecting-IP", "203.0.113.7"}, {"cf-connecting-ip", "203.0.113.7"}},
                 settings) == "10.0.0.1");
    CHECK(client({{"CF_Connecting_IP", "203.0.113.7"}}, settings) == "10.0.0.1");
}

TEST_CASE("client_ip: the examples of RFC 7239 section 4") {
    CHECK(forwarded("for=\"_gazonk\"") == "10.0.0.1");
    CHECK(forwarded("For=\"[2001:db8:cafe::17]:4711\"") == "2001:db8:cafe::17");
    CHECK(forwarded("for=192.0.2.60;proto=http;by=203.0.113.43") == "192.0.2.60");
    CHECK(forwarded("for=192.0.2.43, for=198.51.100.17") == "198.51.100.17");
}

TEST_CASE("client_ip: the examples of RFC 7239 section 6") {
    CHECK(forwarded("for=\"192.0.2.43:47011\"") == "192.0.2.43");
    CHECK(forwarded("for=\"[2001:db8:cafe::17]:47011\"") == "2001:db8:cafe::17");
    CHECK(forwarded("for=\"[2001:db8:cafe::17]\"") == "2001:db8:cafe::17");
    CHECK(forwarded("for=unknown") == "10.0.0.1");
    CHECK(forwarded("for=_hidden, for=_SEVKISEK") == "10.0.0.1");
    CHECK(forwarded("for=_mdn") == "10.0.0.1");
}

TEST_CASE("client_ip: the examples of RFC 7239 section 7") {
    // Section 7.1: one field or two, with or without white space, say the same.
    ClientIpSettings settings = settings_of(Source::forwarded);
    settings.trusted_proxies = {*parse_network("10.0.0.0/8"), *parse_network("2001:db8:cafe::17")};
    const Pairs spellings[] = {
        {{"Forwarded", "for=192.0.2.43,for=\"[2001:db8:cafe::17]\""}},
        {{"Forwarded", "for=192.0.2.43, for=\"[2001:db8:cafe::17]\""}},
        {{"Forwarded", "for=192.0.2.43"}, {"Forwarded", "for=\"[2001:db8:cafe::17]\""}},
    };
    for (const Pairs& spelling : spellings) CHECK(client(spelling, settings) == "192.0.2.43");
    CHECK(client({{"Forwarded", "for=192.0.2.43, for=\"[2001:db8:cafe::17]\", for=unknown"}},
                 settings) == "10.0.0.1");
    CHECK(client({{"Forwarded", "for=192.0.2.43"},
                  {"Forwarded", "for=\"[2001:db8:cafe::17]\", for=unknown"}},
                 settings) == "10.0.0.1");

    // Section 7.4: the same chain in both fields.
    ClientIpSettings older = settings;
    older.source = Source::x_forwarded_for;
    CHECK(client({{"X-Forwarded-For", "192.0.2.43, 2001:db8:cafe::17"}}, older) == "192.0.2.43");

    // Section 7.5: a client, two proxies, and us as the origin server.
    settings.trusted_proxies = {*parse_network("203.0.113.60"), *parse_network("198.51.100.17")};
    const auto fields = fields_of(
        {{"Forwarded",
          "for=192.0.2.43, for=198.51.100.17;by=203.0.113.60;proto=http;host=example.com"}});
    CHECK(text_of(client_address(peer_of("203.0.113.60", settings), fields, settings)) ==
          "192.0.2.43");
}

TEST_CASE("client_ip: Forwarded is read strictly, and what is faulty ends the walk") {
    CHECK(forwarded("for=203.0.113.7") == "203.0.113.7");
    CHECK(forwarded("FOR=\"203.0.113.7\"") == "203.0.113.7");
    CHECK(forwarded("proto=https;for=203.0.113.7") == "203.0.113.7");
    CHECK(forwarded(" for=203.0.113.7 ; proto=https\t") == "203.0.113.7");
    CHECK(forwarded(";for=203.0.113.7;") == "203.0.113.7");
    CHECK(forwarded("for=\"2\\03.0.113.7\"") == "203.0.113.7");  // a quoted pair
    CHECK(forwarded("for=\"203.0.113.7:_port\"") == "203.0.113.7");
    CHECK(forwarded("host=\"a, for=192.0.2.1\";for=203.0.113.7") == "203.0.113.7");
    CHECK(forwarded("host=\"\\\", for=192.0.2.1\";for=203.0.113.7") == "203.0.113.7");
    CHECK(forwarded("host=\"\\\\\";for=203.0.113.7") == "203.0.113.7");
    for (const char* bad : {"for=203.0.113.7;for=203.0.113.7",
                            "for=203.0.113.7;FOR=192.0.2.1",
                            "proto=https",
                            "for=",
                            "for=\"\"",
                            "for",
                            "=203.0.113.7",
                            "for =203.0.113.7",
                            "for= 203.0.113.7",
                            "for=203.0.113.7:80",
                            "for=[2001:db8::7]",
                            "for=\"2001:db8::7\"",
                            "for=\"203.0.113.7",
                            "for=203.0.113.7\"",
                            "for=\"203.0.113.7\\",
                            "for=\"203.0.113.7\"x",
                            "203.0.113.7",
                            "for=\"[203.0.113.7]\"",
                            "for=\"203.0.113.7:_\"",
                            "for=\"203.0.113.7:99999\"",
                            "for=\"203.0.113.7:123456\"",
                            "for=\" 203.0.113.7\"",
                            "for=203.0.113.7 proto=http",
                            "for=203.0.113.7;x",
                            "for=203.0.113.7;\"",
                            "for=\"0.0.0.0\"",
                            "for=\"[::]\"",
                            ""}) {
        CHECK_MESSAGE(forwarded(bad) == "10.0.0.1", bad);
        const std::string chain = std::string(bad) + ", for=10.0.0.2";
        CHECK_MESSAGE(forwarded(chain) == "10.0.0.2", chain);
    }
    CHECK(forwarded("for=\"" + std::string(10'000, '1') + "\"") == "10.0.0.1");
}

TEST_CASE("client_ip: the zone of an address is dropped, with or without brackets and port") {
    for (const char* spelling :
         {"fe80::7%eth0", "FE80:0::7%eth1", "[fe80::7%2]", " [fe80::7%eth0.100]:4711\t", "fe80::7",
          "fe80::7%a-name-that-no-link-of-this-machine-could-have"})
        CHECK_MESSAGE(xff(spelling) == "fe80::7", spelling);
    CHECK(xff("2001:db8::7%eth0") == "2001:db8::7");
    CHECK(xff("::ffff:203.0.113.7%eth0") == "203.0.113.7");
    CHECK(forwarded("for=\"[fe80::7%eth0]\"") == "fe80::7");
    CHECK(forwarded("for=\"[2001:db8::7%25eth0]:_port\"") == "2001:db8::7");
    CHECK(client({{"CF-Connecting-IP", "fe80::7%eth0"}},
                 settings_of(Source::single, "cf-connecting-ip")) == "fe80::7");
}

TEST_CASE("client_ip: a neighbour is trusted by its network, and its zone does not end a chain") {
    ClientIpSettings settings;
    settings.trusted_proxies = {*parse_network("fe80::/10")};
    const Peer peer = peer_of("fe80::1", settings);
    CHECK(peer.trusted);
    const auto fields = fields_of({{"X-Forwarded-For", "203.0.113.7, fe80::2%eth1, fe80::3"}});
    CHECK(text_of(client_address(peer, fields, settings)) == "203.0.113.7");
}

struct Step {
    std::string text;
    std::string address;
    Hop::Kind kind;

    bool operator==(const Step&) const = default;
};

// The walk with its reasons; its end is the result of the other functions.
std::vector<Step> walk(const Pairs& pairs, const ClientIpSettings& settings,
                       bool peer_trusted = true) {
    std::vector<Hop> hops;
    const auto fields = fields_of(pairs);
    const Peer peer{parse_ip("10.0.0.1"), peer_trusted};
    CHECK(client_address(peer, fields, settings, &hops) == client_address(peer, fields, settings));
    std::vector<Step> steps;
    for (const Hop& hop : hops)
        steps.push_back({std::string(hop.text), text_of(hop.address), hop.kind});
    return steps;
}

TEST_CASE("client_ip: the walk reports each hop and why it ended there") {
    using enum Hop::Kind;
    const auto chain = settings_of(Source::x_forwarded_for);
    CHECK(walk({{"X-Forwarded-For", "192.0.2.1, 203.0.113.7:80"}, {"X-Forwarded-For", "10.0.0.2"}},
               chain) == std::vector<Step>{{"10.0.0.2", "10.0.0.2", trusted},
                                           {"203.0.113.7:80", "203.0.113.7", client}});
    CHECK(walk({{"X-Forwarded-For", "192.0.2.1, unknown,10.0.0.2"}}, chain) ==
          std::vector<Step>{{"10.0.0.2", "10.0.0.2", trusted}, {"unknown", "nobody", unreadable}});
    CHECK(walk({{"X-Forwarded-For", "[::]"}}, chain) ==
          std::vector<Step>{{"[::]", "::", Hop::Kind::unspecified}});
    CHECK(walk({{"X-Forwarded-For", "10.0.0.3"}}, chain) ==
          std::vector<Step>{{"10.0.0.3", "10.0.0.3", trusted}});
    CHECK(walk({}, chain).empty());
    CHECK(walk({{"X-Forwarded-For", "203.0.113.7"}}, chain, false).empty());
    CHECK(walk({{"Forwarded", "for=\"[2001:db8::7]:80\" ; by=_us"}},
               settings_of(Source::forwarded)) ==
          std::vector<Step>{{"for=\"[2001:db8::7]:80\" ; by=_us", "2001:db8::7", client}});

    const auto single = settings_of(Source::single, "cf-connecting-ip");
    CHECK(walk({{"CF-Connecting-IP", "203.0.113.7"}}, single) ==
          std::vector<Step>{{"203.0.113.7", "203.0.113.7", client}});
    CHECK(walk({}, single) == std::vector<Step>{{"", "nobody", unreadable}});
    CHECK(walk({{"CF-Connecting-IP", "192.0.2.1"}, {"CF-Connecting-IP", "192.0.2.1"}}, single) ==
          std::vector<Step>{{"", "nobody", unreadable}});
}

TEST_CASE("client_ip: a chain that does not come to a client says why") {
    const auto fault = [](const Pairs& pairs, const ClientIpSettings& settings,
                          const char* peer = "10.0.0.1") {
        ChainFault found = ChainFault::none;
        client_address(peer_of(peer, settings), fields_of(pairs), settings, nullptr, &found);
        return found;
    };
    const auto chain = settings_of(Source::x_forwarded_for);
    const auto in_chain = [&](std::string_view value, const char* peer = "10.0.0.1") {
        return fault({{"X-Forwarded-For", value}}, chain, peer);
    };
    CHECK(in_chain("203.0.113.7") == ChainFault::none);
    CHECK(in_chain("garbage, 203.0.113.7, 10.0.0.2") == ChainFault::none);
    CHECK(in_chain("10.0.0.3") == ChainFault::none);
    CHECK(fault({}, chain) == ChainFault::none);
    CHECK(in_chain("garbage, 10.0.0.2") == ChainFault::unreadable);
    CHECK(in_chain("unknown") == ChainFault::unreadable);
    CHECK(in_chain("") == ChainFault::unreadable);
    CHECK(in_chain("0.0.0.0, 10.0.0.2") == ChainFault::unspecified);
    CHECK(in_chain("garbage", "203.0.113.7") == ChainFault::none);  // not trusted anyway
    CHECK(fault({{"Forwarded", "for=203.0.113.7;for=203.0.113.7"}},
                settings_of(Source::forwarded)) == ChainFault::unreadable);

    const auto single = settings_of(Source::single, "cf-connecting-ip");
    CHECK(fault({}, single) == ChainFault::none);
    CHECK(fault({{"CF-Connecting-IP", "203.0.113.7"}}, single) == ChainFault::none);
    CHECK(fault({{"CF-Connecting-IP", "x"}}, single) == ChainFault::unreadable);
    CHECK(fault({{"CF-Connecting-IP", ""}}, single) == ChainFault::repeated);
    CHECK(fault({{"CF-Connecting-IP", "192.0.2.1"}, {"CF-Connecting-IP", "192.0.2.1"}}, single) ==
          ChainFault::repeated);
    CHECK(fault({{"CF_Connecting_IP", "192.0.2.1"}}, single) == ChainFault::repeated);
    CHECK(field_of(single) == "cf-connecting-ip");
    CHECK(field_of(chain) == "x-forwarded-for");
}

TEST_CASE("client_ip: of a chain a hundred hops are read, and the last of them is the client") {
    for (const Source source : {Source::x_forwarded_for, Source::forwarded}) {
        const ClientIpSettings settings = settings_of(source);
        const bool is_list = source == Source::x_forwarded_for;
        const std::string label = is_list ? "" : "for=";
        const auto walked = [&](int proxies, ChainFault& fault, std::vector<Hop>& hops) {
            std::string chain = label + "203.0.113.7";
            for (int i = 0; i < proxies; ++i) chain += "," + label + "10.0.0.2";
            const Pairs pairs{{is_list ? "X-Forwarded-For" : "Forwarded", chain}};
            return text_of(client_address(peer_of("10.0.0.1", settings), fields_of(pairs), settings,
                                          &hops, &fault));
        };
        ChainFault fault = ChainFault::none;
        std::vector<Hop> hops;
        CHECK(walked(99, fault, hops) == "203.0.113.7");
        CHECK(fault == ChainFault::none);
        CHECK(hops.size() == kHopsMax);
        for (const int proxies : {100, 3'000}) {
            hops.clear();
            CHECK(walked(proxies, fault, hops) == "10.0.0.2");
            CHECK(fault == ChainFault::too_long);
            CHECK(hops.size() == kHopsMax);
        }
    }
    CHECK(describe(ChainFault::too_long) == "has more than 100 entries of trusted proxies");
}

TEST_CASE("client_ip: a hundred trusted proxies that each wrote a field are no fault") {
    std::vector<std::pair<std::string_view, std::string_view>> fields(
        100, {"X-Forwarded-For", "10.0.0.2"});
    ChainFault fault = ChainFault::none;
    const auto settings = settings_of(Source::x_forwarded_for);
    CHECK(text_of(client_address(peer_of("10.0.0.1", settings), fields_of(fields), settings,
                                 nullptr, &fault)) == "10.0.0.2");
    CHECK(fault == ChainFault::none);
}

TEST_CASE("client_ip: what a client writes to the left is walked in linear time") {
    CHECK(forwarded(std::string(32'768, '"')) == "10.0.0.1");
    CHECK(forwarded(std::string(32'768, '\\') + "\"") == "10.0.0.1");
    CHECK(forwarded("\"" + std::string(32'768, ',') + ", for=10.0.0.2") == "10.0.0.2");
}

TEST_CASE("client_ip: naming the client allocates nothing") {
    const ClientIpSettings believing_nobody;
    const auto settings = settings_of(Source::forwarded);
    const auto fields =
        fields_of({{"X-Forwarded-For", "192.0.2.1, 10.0.0.2"},
                   {"Forwarded", "for=\"[2001:db8::7]:80\", for=10.0.0.2;host=\"a,b\""}});
    const Peer peer = peer_of("10.0.0.1", settings);
    const Peer stranger = peer_of("203.0.113.7", believing_nobody);
    const long before = allocations;
    const auto alone = client_address(stranger, fields, believing_nobody);
    const auto chained = client_address(peer, fields, settings);
    CHECK(allocations == before);
    CHECK(text_of(alone) == "203.0.113.7");
    CHECK(text_of(chained) == "2001:db8::7");
}

TEST_CASE("client_ip: an unspecified address names no client, even as the peer") {
    const ClientIpSettings settings;
    CHECK(text_of(client_address({parse_ip("0.0.0.0"), false}, {}, settings)) == "nobody");
    CHECK(text_of(client_address({parse_ip("::"), true}, {}, settings)) == "nobody");
}

}  // namespace

}  // namespace tidegate::identity::client_ip_test

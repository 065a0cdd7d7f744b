#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "http/proxy_header.hpp"

namespace tidegate::http_proxy_header_test {

using http::looks_like_proxy_header;
using http::ProxyHeader;
using http::read_proxy_header;
using State = ProxyHeader::State;

namespace {

const std::string kSignature("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr int kProxy = 0x21;
constexpr int kLocal = 0x20;

std::string byte(int value) {
    return {static_cast<char>(value)};
}

// A header of version 2 whose length is that of `rest`.
std::string binary(int command, int family, const std::string& rest) {
    return kSignature + byte(command) + byte(family) + byte(static_cast<int>(rest.size() >> 8)) +
           byte(static_cast<int>(rest.size() & 0xff)) + rest;
}

// 203.0.113.7:51234 to 192.0.2.1:443
std::string ipv4_ends() {
    return std::string("\xcb\x00\x71\x07\xc0\x00\x02\x01\xc8\x22\x01\xbb", 12);
}

// 2001:db8::7 (or ::ffff:203.0.113.7) port 51234 to 2001:db8::1 port 443
std::string ipv6_ends(bool mapped = false) {
    const std::string source =
        mapped ? std::string(10, '\0') + "\xff\xff\xcb" + std::string("\x00\x71\x07", 3)
               : "\x20\x01\x0d\xb8" + std::string(11, '\0') + "\x07";
    return source + "\x20\x01\x0d\xb8" + std::string(11, '\0') + "\x01" +
           std::string("\xc8\x22\x01\xbb", 4);
}

// `SOURCE PORT DESTINATION PORT`, "-" for a header without an address, or the fault.
std::string shown(const std::string& bytes) {
    const ProxyHeader header = read_proxy_header(bytes);
    if (header.state == State::incomplete) return "incomplete";
    if (header.state == State::malformed) return std::string(header.fault);
    if (!header.ends) return "-";
    return header.ends->source.to_string() + " " + std::to_string(header.ends->source_port) + " " +
           header.ends->destination.to_string() + " " +
           std::to_string(header.ends->destination_port);
}

std::vector<std::string> good_headers() {
    return {"PROXY TCP4 203.0.113.7 192.0.2.1 51234 443\r\n",
            "PROXY TCP6 2001:db8::7 2001:db8::1 51234 443\r\n",
            "PROXY UNKNOWN\r\n",
            "PROXY UNKNOWN ffff:f...f:ffff 65535 and more\r\n",
            binary(kProxy, 0x11, ipv4_ends()),
            binary(kProxy, 0x21, ipv6_ends()),
            binary(kProxy, 0x31, std::string(216, 'x')),
            binary(kLocal, 0x00, ""),
            binary(kProxy, 0x11, ipv4_ends() + std::string(200, '\x04'))};
}

}  // namespace

TEST_CASE("proxy_header: both versions name both ends, of IPv4 and of IPv6") {
    CHECK(shown("PROXY TCP4 203.0.113.7 192.0.2.1 51234 443\r\n") ==
          "203.0.113.7 51234 192.0.2.1 443");
    CHECK(shown("PROXY TCP6 2001:db8::7 2001:db8::1 0 65535\r\n") ==
          "2001:db8::7 0 2001:db8::1 65535");
    CHECK(shown("PROXY TCP6 ::ffff:203.0.113.7 ::ffff:192.0.2.1 1 2\r\n") ==
          "203.0.113.7 1 192.0.2.1 2");
    CHECK(shown(binary(kProxy, 0x11, ipv4_ends())) == "203.0.113.7 51234 192.0.2.1 443");
    CHECK(shown(binary(kProxy, 0x21, ipv6_ends())) == "2001:db8::7 51234 2001:db8::1 443");
    CHECK(shown(binary(kProxy, 0x21, ipv6_ends(true))) == "203.0.113.7 51234 2001:db8::1 443");
}

TEST_CASE("proxy_header: a mapped address of version 2 is the same address as the plain one") {
    const auto mapped = read_proxy_header(binary(kProxy, 0x21, ipv6_ends(true)));
    const auto plain = read_proxy_header(binary(kProxy, 0x11, ipv4_ends()));
    REQUIRE(mapped.ends.has_value());
    REQUIRE(plain.ends.has_value());
    CHECK(mapped.ends->source == plain.ends->source);
}

TEST_CASE("proxy_header: a header without an IP address is complete and has no ends") {
    const std::vector<std::string> headers{"PROXY UNKNOWN\r\n",
                                           "PROXY UNKNOWN 203.0.113.7 192.0.2.1 51234 443\r\n",
                                           "PROXY UNKNOWN any\x01 thing \r\n",
                                           binary(kProxy, 0x00, ""),
                                           binary(kProxy, 0x00, "passed over"),
                                           binary(kLocal, 0x00, ""),
                                           binary(kLocal, 0x11, ipv4_ends()),
                                           binary(kLocal, 0xff, "whatever"),
                                           binary(kProxy, 0x12, ipv4_ends()),
                                           binary(kProxy, 0x22, ipv6_ends()),
                                           binary(kProxy, 0x31, std::string(216, 'x')),
                                           binary(kProxy, 0x32, std::string(216, 'x'))};
    for (const std::string& header : headers) {
        CAPTURE(header);
        CHECK(shown(header) == "-");
        CHECK(read_proxy_header(header + "GET").bytes == header.size());
    }
}

TEST_CASE("proxy_header: cut at any byte it is incomplete, and what follows it is left alone") {
    for (const std::string& header : good_headers()) {
        CAPTURE(header);
        for (std::size_t size = 0; size < header.size(); ++size) {
            CAPTURE(size);
            CHECK(read_proxy_header(header.substr(0, size)).state == State::incomplete);
        }
        for (const std::string rest : {"", "G", "GET / HTTP/1.1\r\n\r\n", "PROXY UNKNOWN\r\n"}) {
            const ProxyHeader read = read_proxy_header(header + rest);
            CHECK(read.state == State::complete);
            CHECK(read.bytes == header.size());
            CHECK(read.ends == read_proxy_header(header).ends);
        }
    }
}

TEST_CASE("proxy_header: the extensions of version 2 are passed over, up to 4 KiB in all") {
    const auto with = [](std::size_t bytes) {
        return binary(kProxy, 0x11, ipv4_ends() + std::string(bytes, '\x03'));
    };
    CHECK(read_proxy_header(with(4'096 - 28)).bytes == 4'096);
    CHECK(shown(with(4'096 - 28)) == "203.0.113.7 51234 192.0.2.1 443");
    CHECK(shown(with(4'096 - 27)) == "is longer than 4 KiB");
    // The length alone says it.
    CHECK(shown(with(60'000).substr(0, 16)) == "is longer than 4 KiB");
    CHECK(shown(binary(kLocal, 0, std::string(5'000, 'x')).substr(0, 16)) ==
          "is longer than 4 KiB");
}

TEST_CASE("proxy_header: a line of version 1 has at most 107 bytes") {
    const auto line = [](std::size_t bytes) {
        const std::string begin = "PROXY UNKNOWN ";
        return begin + std::string(bytes - begin.size() - 2, 'x') + "\r\n";
    };
    CHECK(shown(line(107)) == "-");
    CHECK(shown(line(108)) == "is longer than 107 bytes");
    CHECK(shown(line(200)) == "is longer than 107 bytes");
    CHECK(shown(line(108).substr(0, 106)) == "incomplete");
    CHECK(shown(line(108).substr(0, 107)) == "is longer than 107 bytes");
}

TEST_CASE("proxy_header: a header that two readers could read differently is malformed") {
    const std::string unreadable = "has an address or a port that cannot be read";
    struct Row {
        std::string bytes;
        std::string fault;
    };
    const std::vector<Row> rows{
        {"GET / HTTP/1.1\r\n", "is missing"},
        {"POST / HTTP/1.1\r\n", "is missing"},
        {"X", "is missing"},
        {"\x16\x03\x01", "is missing"},
        {"proxy UNKNOWN\r\n", "is missing"},
        {"PROXY\r\n", "is missing"},
        {"PROXY\tUNKNOWN\r\n", "is missing"},
        {" PROXY UNKNOWN\r\n", "is missing"},
        {"\r\nPROXY UNKNOWN\r\n", "is missing"},
        {kSignature.substr(0, 11) + "X", "is missing"},
        {"PROXY \r\n", "has an unknown protocol"},
        {"PROXY  UNKNOWN\r\n", "has an unknown protocol"},
        {"PROXY unknown\r\n", "has an unknown protocol"},
        {"PROXY UNKNOWNS\r\n", "has an unknown protocol"},
        {"PROXY TCP5 203.0.113.7 192.0.2.1 1 2\r\n", "has an unknown protocol"},
        {"PROXY UDP4 203.0.113.7 192.0.2.1 1 2\r\n", "has an unknown protocol"},
        {"PROXY UNKNOWN\n", "does not end in CRLF"},
        {"PROXY UNKNOWN\rX", "does not end in CRLF"},
        {"PROXY UNKNOWN\r\r\n", "does not end in CRLF"},
        {"PROXY UNKNOWN \n\r\n", "does not end in CRLF"},
        {"PROXY TCP4\r\n", unreadable},
        {"PROXY TCP4 203.0.113.7 192.0.2.1 1\r\n", unreadable},
        {"PROXY TCP4 203.0.113.7 192.0.2.1 1 \r\n", unreadable},
        {"PROXY TCP4 203.0.113.7 192.0.2.1 1 2 \r\n", unreadable},
        {"PROXY TCP4 203.0.113.7 192.0.2.1 1 2 3\r\n", unreadable},
        {"PROXY TCP4  203.0.113.7 192.0.2.1 1 2\r\n", unreadable},
        {"PROXY TCP4 203.0.113.7  1 2\r\n", unreadable},
        {"PROXY TCP4 203.0.113.07 192.0.2.1 1 2\r\n", unreadable},
        {"PROXY TCP4 203.0.113 192.0.2.1 1 2\r\n", unreadable},
        {"PROXY TCP4 203.0.113.7:1 192.0.2.1 1 2\r\n", unreadable},
        {"PROXY TCP4 ::ffff:203.0.113.7 192.0.2.1 1 2\r\n", unreadable},
        {"PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n", unreadable},
        {"PROXY TCP6 203.0.113.7 192.0.2.1 1 2\r\n", unreadable},
        {"PROXY TCP6 2001:db8::7 192.0.2.1 1 2\r\n", unreadable},
        {"PROXY TCP6 [2001:db8::7] 2001:db8::1 1 2\r\n", unreadable},
        {"PROXY TCP6 fe80::7%eth0 2001:db8::1 1 2\r\n", unreadable},
        {"PROXY TCP4 203.0.113.7 192.0.2.1 65536 2\r\n", unreadable},
        {"PROXY TCP4 203.0.113.7 192.0.2.1 1 002\r\n", unreadable},
        {"PROXY TCP4 203.0.113.7 192.0.2.1 +1 2\r\n", unreadable},
        {"PROXY TCP4 203.0.113.7 192.0.2.1 -1 2\r\n", unreadable},
        {"PROXY TCP4 203.0.113.7 192.0.2.1 1 2\t\r\n", unreadable},
        {binary(0x11, 0x11, ipv4_ends()), "has an unknown version"},
        {binary(0x31, 0x11, ipv4_ends()), "has an unknown version"},
        {binary(0x22, 0x11, ipv4_ends()), "has an unknown command"},
        {binary(0x2f, 0x11, ipv4_ends()), "has an unknown command"},
        {binary(kProxy, 0x41, ipv4_ends()), "has an unknown protocol"},
        {binary(kProxy, 0x13, ipv4_ends()), "has an unknown protocol"},
        {binary(kProxy, 0x10, ipv4_ends()), "has an unknown protocol"},
        {binary(kProxy, 0x01, ipv4_ends()), "has an unknown protocol"},
        {binary(kProxy, 0x11, ipv4_ends().substr(1)), "is too short for its addresses"},
        {binary(kProxy, 0x21, ipv6_ends().substr(1)), "is too short for its addresses"},
        {binary(kProxy, 0x31, std::string(215, 'x')), "is too short for its addresses"},
        {binary(kProxy, 0x11, ""), "is too short for its addresses"}};
    for (const Row& row : rows) {
        CAPTURE(row.bytes);
        CHECK(shown(row.bytes) == row.fault);
        CHECK(shown(row.bytes + "more") == row.fault);
    }
}

TEST_CASE("proxy_header: a second one is known where a request should be") {
    for (const std::string& header : good_headers()) {
        CAPTURE(header);
        CHECK(looks_like_proxy_header(header));
        // The reader of requests has passed over one empty line.
        if (header.starts_with("\r\n")) CHECK(looks_like_proxy_header(header.substr(2)));
    }
    for (const std::string other :
         {"", "GET / HTTP/1.1\r\n", "PROXY", "PROXYING / HTTP/1.1\r\n", "PUT", "\rX", "QUIT\n"}) {
        CAPTURE(other);
        CHECK_FALSE(looks_like_proxy_header(other));
    }
}

}  // namespace tidegate::http_proxy_header_test

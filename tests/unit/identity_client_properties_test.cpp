// What must hold of a client's address whatever a client writes, tried at random with fixed seeds.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "identity/client_ip.hpp"
#include "identity/identifier.hpp"

namespace tidegate::identity::client_properties_test {
namespace {

using Source = ClientIpSettings::Source;
using Lines = std::vector<std::string>;
using Random = std::mt19937;

ClientIpSettings settings_of(Source source) {
    ClientIpSettings settings;
    settings.trusted_proxies = {*parse_network("10.0.0.0/8"), *parse_network("2001:db8:f::/48"),
                                *parse_network("fe80::/10")};
    settings.source = source;
    return settings;
}

std::optional<IpAddress> client_of(const Lines& lines, const ClientIpSettings& settings) {
    const auto id = settings.source == Source::forwarded ? http::FieldName::forwarded
                                                         : http::FieldName::x_forwarded_for;
    http::Fields fields;
    for (const std::string& line : lines) fields.push_back({id, "", line});
    return client_address({parse_ip("10.0.0.1"), true}, fields, settings);
}

std::string shown(const Lines& lines) {
    std::string all;
    for (const std::string& line : lines) all += "[" + line + "]";
    return all;
}

std::size_t below(Random& random, std::size_t bound) {
    return random() % bound;
}

// A line that a hostile client might send: bytes that mean something somewhere, whole addresses
// and hops, and bytes that mean nothing anywhere.
std::string hostile_line(Random& random) {
    static const char* const kParts[] = {
        ",",         ", ",        "\"",       "\\",        "\\\"",          ";",
        "for=",      "for=\"",    "[",        "]",         "::1",           "unknown",
        " ",         "\t",        "10.0.0.9", "=",         "host=\"",       "x",
        "\\\\",      "0.0.0.0",   "::",       "fe80::1%l", "for=\"[::1]\"", "for=10.0.0.9",
        "203.0.113", "192.0.2.1", "for=_a",   "%",         "2001:db8:f::9", ",,",
        "\"\"",      "\\,",       "proto=a",  ":80",       "by=\"\\\"",     "for=192.0.2.1, "};
    std::string line;
    for (auto parts = below(random, 10); parts > 0; --parts) {
        if (below(random, 8) == 0) {
            line += static_cast<char>(random());
        } else {
            line += kParts[below(random, std::size(kParts))];
        }
    }
    return line;
}

Lines hostile_lines(Random& random) {
    Lines lines(below(random, 4));
    for (std::string& line : lines) line = hostile_line(random);
    return lines;
}

// A hop as a well-behaved proxy writes it, with all that the grammar of the field lets it write.
std::string hop_text(Source source, const std::string& address, Random& random) {
    const bool v6 = address.find(':') != std::string::npos;
    const std::string port = below(random, 3) == 0 ? ":4711" : "";
    if (source == Source::x_forwarded_for) {
        return v6 && (!port.empty() || below(random, 2) == 0) ? "[" + address + "]" + port
                                                              : address + port;
    }
    const std::string node = (v6 ? "[" + address + "]" : address) + port;
    std::string hop =
        v6 || !port.empty() || below(random, 2) == 0 ? "for=\"" + node + "\"" : "For=" + node;
    static const char* const kOthers[] = {"", ";proto=https", ";host=\"a\\\",b\"", ";by=\"_x,;y\"",
                                          ";host=\"\\\\\""};
    hop += kOthers[below(random, std::size(kOthers))];
    if (below(random, 4) == 0) hop = "proto=http;" + hop;
    return hop;
}

// Appends `hop` as the next proxy may: to the last line, or as a line of its own.
void append_hop(Lines& lines, const std::string& hop, Random& random) {
    if (lines.empty() || below(random, 3) == 0) {
        lines.push_back(hop);
    } else {
        static const char* const kCommas[] = {",", ", ", " ,\t"};
        lines.back() += kCommas[below(random, std::size(kCommas))] + hop;
    }
}

TEST_CASE("client_ip: prefixing any client-made chain changes nothing") {
    Random random(4711);
    for (const Source source : {Source::x_forwarded_for, Source::forwarded}) {
        const ClientIpSettings settings = settings_of(source);
        static const char* const kClients[] = {"203.0.113.7", "2001:db8::7", "192.0.2.255"};
        static const char* const kProxies[] = {"10.0.0.2", "2001:db8:f::2", "fe80::2%eth0"};
        for (int round = 0; round < 60'000; ++round) {
            const std::string client = kClients[below(random, std::size(kClients))];
            Lines lines = hostile_lines(random);
            append_hop(lines, hop_text(source, client, random), random);
            for (auto proxies = below(random, 4); proxies > 0; --proxies) {
                append_hop(lines,
                           hop_text(source, kProxies[below(random, std::size(kProxies))], random),
                           random);
            }
            REQUIRE_MESSAGE(client_of(lines, settings) == parse_ip(client), shown(lines));
        }
    }
}

TEST_CASE("client_ip: any chain names a client, and several lines are one list") {
    Random random(815);
    for (const Source source : {Source::x_forwarded_for, Source::forwarded}) {
        const ClientIpSettings settings = settings_of(source);
        for (int round = 0; round < 60'000; ++round) {
            const Lines lines = hostile_lines(random);
            const auto named = client_of(lines, settings);
            REQUIRE_MESSAGE(named, shown(lines));
            REQUIRE_MESSAGE(!named->is_unspecified(), shown(lines));
            if (lines.empty()) continue;
            std::string joined = lines.front();
            for (auto line = lines.begin() + 1; line != lines.end(); ++line) joined += ", " + *line;
            // A quote that one line opens and another closes is none: each line is read for itself.
            if (source == Source::forwarded && joined.find('"') != joined.npos) continue;
            REQUIRE_MESSAGE(client_of({joined}, settings) == named, shown(lines));
        }
    }
}

using Groups = std::array<unsigned, 8>;

std::string in_any_case(std::string text, Random& random) {
    for (char& c : text)
        if (c >= 'a' && c <= 'f' && below(random, 2) == 0) c = static_cast<char>(c - 'a' + 'A');
    return text;
}

std::string group_text(unsigned group, Random& random) {
    static const char* const kFormats[] = {"%x", "%02x", "%03x", "%04x"};
    char text[8];
    std::snprintf(text, sizeof text, kFormats[below(random, std::size(kFormats))], group);
    return in_any_case(text, random);
}

// Groups from `begin` to `end`, the last two perhaps as IPv4 when they end the address.
std::string groups_text(const Groups& groups, std::size_t begin, std::size_t end, Random& random) {
    std::string text;
    for (std::size_t i = begin; i < end; ++i) {
        if (!text.empty()) text += ':';
        if (i == 6 && end == 8 && below(random, 3) == 0) {
            return text + std::to_string(groups[6] >> 8) + "." + std::to_string(groups[6] & 255) +
                   "." + std::to_string(groups[7] >> 8) + "." + std::to_string(groups[7] & 255);
        }
        text += group_text(groups[i], random);
    }
    return text;
}

// Any text of RFC 4291 section 2.2 for these groups.
std::string v6_text(const Groups& groups, Random& random) {
    const std::size_t begin = below(random, 8);
    std::size_t end = begin;
    while (end < 8 && groups[end] == 0 && (end == begin || below(random, 3) != 0)) ++end;
    if (end == begin) return groups_text(groups, 0, 8, random);
    return groups_text(groups, 0, begin, random) + "::" + groups_text(groups, end, 8, random);
}

struct Spelled {
    std::string text;
    bool v6;
};

Spelled spelled(const IpAddress& ip, Random& random) {
    Groups groups{};
    if (!ip.v4) {
        for (std::size_t i = 0; i < 8; ++i) groups[i] = ip.bytes[2 * i] << 8U | ip.bytes[2 * i + 1];
        static const char* const kZones[] = {"", "", "%eth0", "%2", "%wlp0s20f3", "%br-1.7_x"};
        return {v6_text(groups, random) + kZones[below(random, std::size(kZones))], true};
    }
    if (below(random, 2) == 0) return {ip.to_string(), false};
    groups[5] = 0xffff;
    groups[6] = ip.bytes[0] << 8U | ip.bytes[1];
    groups[7] = ip.bytes[2] << 8U | ip.bytes[3];
    return {v6_text(groups, random), true};
}

std::string with_port(Random& random) {
    static const char* const kPorts[] = {"", "", ":0", ":80", ":65535", ":00080"};
    return kPorts[below(random, std::size(kPorts))];
}

// One hop that names `ip`, in any way that the field's grammar has for it.
std::string any_spelling(const IpAddress& ip, Source source, Random& random) {
    static const char* const kSpace[] = {"", " ", "\t", " \t "};
    const auto space = [&] { return std::string(kSpace[below(random, std::size(kSpace))]); };
    const Spelled address = spelled(ip, random);
    std::string port = with_port(random);
    if (source == Source::forwarded) {
        if (below(random, 4) == 0) port = ":_p.o-r_t";
        const std::string node = (address.v6 ? "[" + address.text + "]" : address.text) + port;
        std::string quoted;
        for (const char c : node) {
            if (below(random, 6) == 0) quoted += '\\';
            quoted += c;
        }
        const bool token = !address.v6 && port.empty() && below(random, 2) == 0;
        return space() + (below(random, 2) == 0 ? "for=" : "FoR=") +
               (token ? node : "\"" + quoted + "\"") + space();
    }
    if (!address.v6) return space() + address.text + port + space();
    const bool bracketed = !port.empty() || below(random, 2) == 0;
    return space() + (bracketed ? "[" + address.text + "]" + port : address.text) + space();
}

IpAddress random_address(Random& random) {
    IpAddress ip;
    ip.v4 = below(random, 3) == 0;
    for (std::size_t i = 0; i < (ip.v4 ? 4U : 16U); ++i)
        ip.bytes[i] = below(random, 2) == 0 ? static_cast<std::uint8_t>(random()) : std::uint8_t{0};
    if (ip.v4) {
        ip.bytes[0] = 203;
        return ip;
    }
    ip.bytes[0] = 0x20;
    if (below(random, 4) == 0) {
        ip.bytes[0] = 0xfe;
        ip.bytes[1] = 0x80;
    }
    return ip;
}

std::string identifiers(const std::optional<IpAddress>& ip) {
    std::string all;
    if (!ip) return all;
    for (const int prefix : {24, 48, 64, 128}) {
        append_ip_identifier(*ip, prefix, all);
        all += ' ';
    }
    return all;
}

TEST_CASE("client_ip: any spelling of an address gives one identifier") {
    Random random(7239);
    ClientIpSettings settings;
    settings.trusted_proxies = {*parse_network("10.0.0.0/8")};
    for (int round = 0; round < 40'000; ++round) {
        const IpAddress ip = random_address(random);
        const std::string expected = identifiers(ip);
        for (const Source source : {Source::x_forwarded_for, Source::forwarded}) {
            settings.source = source;
            const std::string text = any_spelling(ip, source, random);
            REQUIRE_MESSAGE(identifiers(client_of({text}, settings)) == expected, text);
        }
    }
}

TEST_CASE("client_ip: two addresses never share the identifier of the longest prefix") {
    Random random(6);
    for (int round = 0; round < 40'000; ++round) {
        const IpAddress one = random_address(random);
        IpAddress other = one;
        const auto byte = below(random, one.v4 ? 3 : 14) + (one.v4 ? 1 : 2);
        other.bytes[byte] ^= static_cast<std::uint8_t>(1 << below(random, 8));
        std::string first;
        std::string second;
        append_ip_identifier(one, 128, first);
        append_ip_identifier(other, 128, second);
        REQUIRE_MESSAGE(first != second, first);
    }
}

}  // namespace
}  // namespace tidegate::identity::client_properties_test

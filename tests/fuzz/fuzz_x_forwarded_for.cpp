// X-Forwarded-For: whatever a client writes in front, the client is the one that the trusted
// proxies saw; and a slow second reading, from left to right, finds the same.
#include <arpa/inet.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "chain_check.hpp"

namespace {

using tidegate::IpAddress;
using tidegate::fuzz::Chain;

// An address as the system's own reader has it.
std::optional<IpAddress> system_address(const std::string& text) {
    IpAddress ip;
    if (inet_pton(AF_INET, text.c_str(), ip.bytes.data()) == 1) return ip;
    if (inet_pton(AF_INET6, text.c_str(), ip.bytes.data()) != 1) return std::nullopt;
    static const std::array<std::uint8_t, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    ip.v4 = std::equal(mapped.begin(), mapped.end(), ip.bytes.begin());
    if (!ip.v4) return ip;
    std::copy(ip.bytes.begin() + 12, ip.bytes.end(), ip.bytes.begin());
    std::fill(ip.bytes.begin() + 4, ip.bytes.end(), std::uint8_t{0});
    return ip;
}

std::optional<IpAddress> naive_hop(const std::string& item) {
    // What may be left out: a port, brackets and a port, a zone.
    static const std::regex v4(R"(([0-9.]+)(?::([0-9]{1,5}))?)");
    static const std::regex v6(R"(\[([0-9A-Fa-f:.]+)(?:%[A-Za-z0-9._-]+)?\](?::([0-9]{1,5}))?)");
    static const std::regex bare(R"(([0-9A-Fa-f:.]+)(?:%[A-Za-z0-9._-]+)?)");
    std::smatch parts;
    const auto port_ok = [&](std::size_t group) {
        return !parts[group].matched || std::stoul(parts[group]) <= 65535;
    };
    if (item.size() > 128) return std::nullopt;
    if (std::regex_match(item, parts, v4))
        return port_ok(2) ? system_address(parts[1]) : std::nullopt;
    const bool bracketed = std::regex_match(item, parts, v6);
    if (!bracketed && !std::regex_match(item, parts, bare)) return std::nullopt;
    if (bracketed && !port_ok(2)) return std::nullopt;
    const std::string digits = parts[1];
    if (digits.find(':') == digits.npos) return std::nullopt;
    return system_address(digits);
}

// Every hop of every line, from left to right.
std::vector<std::string> naive_items(const std::vector<std::string>& lines) {
    std::vector<std::string> items;
    for (const std::string& line : lines) {
        items.emplace_back();
        for (const char c : line) {
            if (c == ',') {
                items.emplace_back();
            } else {
                items.back() += c;
            }
        }
    }
    for (std::string& item : items) {
        while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.erase(0, 1);
        while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.pop_back();
    }
    return items;
}

std::optional<IpAddress> naive_client(const std::vector<std::string>& lines) {
    auto items = naive_items(lines);
    std::optional<IpAddress> client = tidegate::parse_ip("10.0.0.1");
    for (; !items.empty(); items.pop_back()) {
        const auto hop = naive_hop(items.back());
        if (!hop || hop->is_unspecified()) return client;
        client = hop;
        const bool ten = hop->v4 && hop->bytes[0] == 10;
        const bool link_local = !hop->v4 && hop->bytes[0] == 0xfe && hop->bytes[1] >> 6 == 2;
        if (!ten && !link_local) return client;
    }
    return client;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Chain chain(tidegate::http::FieldName::x_forwarded_for);
    const auto lines = tidegate::fuzz::lines_of({reinterpret_cast<const char*>(data), size});
    chain.check_prefix(lines, "203.0.113.7", "10.0.0.2");
    chain.check_prefix(lines, "[::ffff:203.0.113.7]:4711", "fe80::2%eth0");
    chain.check_named(lines);
    FUZZ_CHECK(chain.client(lines) == naive_client(lines));
    return 0;
}

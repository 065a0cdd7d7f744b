// PROXY headers: a header is the same whatever comes behind it and in whatever portions it comes,
// and addresses are those that a plain reader finds.
#include <arpa/inet.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <regex>
#include <string>

#include "base/ip.hpp"
#include "fuzz_check.hpp"
#include "http/proxy_header.hpp"

namespace {

using tidegate::http::ProxyHeader;
using tidegate::http::read_proxy_header;
using State = ProxyHeader::State;

std::optional<tidegate::IpAddress> from_network(int family, const char* bytes) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    FUZZ_CHECK(inet_ntop(family, bytes, text.data(), text.size()) != nullptr);
    return tidegate::parse_ip(text.data());
}

// The second opinion on the ends that a complete header names.
void check_text(const std::string& header, const ProxyHeader& read) {
    static const std::regex pattern(
        R"(PROXY TCP([46]) ([0-9a-fA-F:.]+) ([0-9a-fA-F:.]+) (0|[1-9]\d*) (0|[1-9]\d*)\r\n)");
    std::smatch parts;
    const bool names = std::regex_match(header, parts, pattern);
    FUZZ_CHECK(names == read.ends.has_value());
    if (!names) {
        FUZZ_CHECK(header.starts_with("PROXY UNKNOWN"));
        return;
    }
    const bool v6 = parts[1] == "6";
    FUZZ_CHECK((parts[2].str().find(':') != std::string::npos) == v6);
    FUZZ_CHECK(tidegate::parse_ip(parts[2].str()) == read.ends->source);
    FUZZ_CHECK(tidegate::parse_ip(parts[3].str()) == read.ends->destination);
    FUZZ_CHECK(std::stoul(parts[4].str()) == read.ends->source_port);
    FUZZ_CHECK(std::stoul(parts[5].str()) == read.ends->destination_port);
}

void check_binary(const std::string& header, const ProxyHeader& read) {
    const bool is_proxy = header[12] == '\x21';
    const bool v4 = header[13] == '\x11';
    const bool v6 = header[13] == '\x21';
    FUZZ_CHECK(read.ends.has_value() == (is_proxy && (v4 || v6)));
    if (!read.ends) return;
    const std::size_t size = v4 ? 4 : 16;
    const int family = v4 ? AF_INET : AF_INET6;
    FUZZ_CHECK(from_network(family, &header[16]) == read.ends->source);
    FUZZ_CHECK(from_network(family, &header[16 + size]) == read.ends->destination);
    std::array<std::uint16_t, 2> ports{};
    std::memcpy(ports.data(), &header[16 + 2 * size], sizeof ports);
    FUZZ_CHECK(ntohs(ports[0]) == read.ends->source_port);
    FUZZ_CHECK(ntohs(ports[1]) == read.ends->destination_port);
}

// The verdict on the whole is the first that was given on a part of it.
void check_portions(const std::string& bytes, const ProxyHeader& read) {
    for (std::size_t size = 0; size < bytes.size() && size < 300; ++size) {
        const ProxyHeader part = read_proxy_header(bytes.substr(0, size));
        if (part.state == State::incomplete) continue;
        FUZZ_CHECK(part.state == read.state && part.bytes == read.bytes);
        FUZZ_CHECK(part.ends == read.ends && part.fault == read.fault);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    const ProxyHeader read = read_proxy_header(bytes);
    FUZZ_CHECK((read.state == State::malformed) == !read.fault.empty());
    check_portions(bytes, read);
    if (read.state == State::incomplete) {
        FUZZ_CHECK(bytes.size() < tidegate::http::kProxyHeaderBytesMax);
    }
    if (read.state != State::complete) return 0;
    FUZZ_CHECK(read.bytes <= bytes.size() && read.bytes <= tidegate::http::kProxyHeaderBytesMax);
    const std::string header = bytes.substr(0, read.bytes);
    FUZZ_CHECK(tidegate::http::looks_like_proxy_header(header));
    FUZZ_CHECK(read_proxy_header(header).ends == read.ends);
    if (header.starts_with("PROXY ")) {
        check_text(header, read);
    } else {
        check_binary(header, read);
    }
    return 0;
}

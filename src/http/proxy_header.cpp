#include "http/proxy_header.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace tidegate::http {

namespace {

constexpr std::string_view kTextBegin = "PROXY ";
constexpr std::size_t kTextBytesMax = 107;  // with its CRLF
constexpr std::string_view kBinaryBegin{"\r\n\r\n\0\r\nQUIT\n", 12};
constexpr std::size_t kBinaryFixedBytes = 16;  // up to the addresses

ProxyHeader malformed_header(std::string_view fault) {
    ProxyHeader header;
    header.state = ProxyHeader::State::malformed;
    header.fault = fault;
    return header;
}

ProxyHeader complete_header(std::size_t bytes, const std::optional<ProxyHeader::Ends>& ends) {
    ProxyHeader header;
    header.state = ProxyHeader::State::complete;
    header.bytes = bytes;
    header.ends = ends;
    return header;
}

// Takes a word and the space behind it off the front; the last word has none.
std::string_view take_word(std::string_view& rest) {
    const std::size_t end = rest.find(' ');
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    return word;
}

std::optional<std::uint16_t> read_text_port(std::string_view text) {
    if (text.size() > 1 && text.front() == '0') return std::nullopt;
    return parse_number<std::uint16_t>(text);
}

// An IPv4 address that is written as IPv6 is one of TCP6.
std::optional<IpAddress> read_text_address(std::string_view text, bool v6) {
    if ((text.find(':') != text.npos) != v6) return std::nullopt;
    return parse_ip(text);
}

// `SOURCE DESTINATION SOURCE_PORT DESTINATION_PORT`
std::optional<ProxyHeader::Ends> read_text_ends(std::string_view rest, bool v6) {
    if (std::count(rest.begin(), rest.end(), ' ') != 3) return std::nullopt;
    const auto source = read_text_address(take_word(rest), v6);
    const auto destination = read_text_address(take_word(rest), v6);
    const auto source_port = read_text_port(take_word(rest));
    const auto destination_port = read_text_port(take_word(rest));
    if (!source || !destination || !source_port || !destination_port) return std::nullopt;
    return ProxyHeader::Ends{*source, *destination, *source_port, *destination_port};
}

ProxyHeader read_text(std::string_view bytes) {
    const std::string_view longest = bytes.substr(0, kTextBytesMax);
    const std::size_t end = longest.find_first_of("\r\n");
    if (end == longest.npos || end + 1 == longest.size()) {
        if (longest.size() == kTextBytesMax) return malformed_header("is longer than 107 bytes");
        if (end == longest.npos || longest[end] == '\r') return {};
    }
    if (!longest.substr(end).starts_with("\r\n")) return malformed_header("does not end in CRLF");
    std::string_view rest = longest.substr(kTextBegin.size(), end - kTextBegin.size());
    const std::size_t size = end + 2;
    const std::string_view family = take_word(rest);
    if (family == "UNKNOWN") return complete_header(size, std::nullopt);
    if (family != "TCP4" && family != "TCP6") return malformed_header("has an unknown protocol");
    const auto ends = read_text_ends(rest, family == "TCP6");
    if (!ends) return malformed_header("has an address or a port that cannot be read");
    return complete_header(size, ends);
}

IpAddress address_at(std::string_view bytes, std::size_t at, bool v6) {
    constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    IpAddress address;
    const std::string_view all = bytes.substr(at, v6 ? 16 : 4);
    std::transform(all.begin(), all.end(), address.bytes.begin(),
                   [](char c) { return static_cast<std::uint8_t>(c); });
    address.v4 = !v6;
    if (v6 && std::equal(kMapped.begin(), kMapped.end(), address.bytes.begin())) {
        std::copy(address.bytes.begin() + kMapped.size(), address.bytes.end(),
                  address.bytes.begin());
        std::fill(address.bytes.begin() + 4, address.bytes.end(), std::uint8_t{0});
        address.v4 = true;
    }
    return address;
}

// The addresses begin behind the fixed part.
ProxyHeader::Ends ends_of(std::string_view bytes, bool v6) {
    const std::size_t size = v6 ? 16 : 4;
    const std::size_t ports = kBinaryFixedBytes + 2 * size;
    return {address_at(bytes, kBinaryFixedBytes, v6),
            address_at(bytes, kBinaryFixedBytes + size, v6),
            big_endian<std::uint16_t>(bytes, ports), big_endian<std::uint16_t>(bytes, ports + 2)};
}

ProxyHeader read_binary(std::string_view bytes) {
    constexpr int kVersion = 2;
    constexpr int kLocal = 0;
    constexpr int kProxy = 1;
    constexpr int kStream = 1;
    constexpr int kDatagram = 2;
    constexpr std::array<std::size_t, 4> kAddressBytes{0, 12, 36, 216};  // none, IPv4, IPv6, Unix
    if (bytes.size() < kBinaryFixedBytes) return {};
    const auto version_and_command = static_cast<unsigned char>(bytes[12]);
    const auto family_and_protocol = static_cast<unsigned char>(bytes[13]);
    const std::size_t length = big_endian<std::uint16_t>(bytes, 14);
    const std::size_t size = kBinaryFixedBytes + length;
    if (version_and_command >> 4 != kVersion) return malformed_header("has an unknown version");
    const int command = version_and_command & 0xf;
    if (command != kLocal && command != kProxy) return malformed_header("has an unknown command");
    if (size > kProxyHeaderBytesMax) return malformed_header("is longer than 4 KiB");
    const auto family = static_cast<std::size_t>(family_and_protocol >> 4);
    const int protocol = family_and_protocol & 0xf;
    // A header of LOCAL says nothing else.
    if (command == kProxy) {
        if (family >= kAddressBytes.size() || protocol > kDatagram ||
            (family == 0) != (protocol == 0)) {
            return malformed_header("has an unknown protocol");
        }
        if (length < kAddressBytes[family])
            return malformed_header("is too short for its addresses");
    }
    if (bytes.size() < size) return {};
    const bool has_address = command == kProxy && (family == 1 || family == 2);
    if (!has_address || protocol != kStream) return complete_header(size, std::nullopt);
    return complete_header(size, ends_of(bytes, family == 2));
}

// Whether `bytes` begin as `begin` does, as far as they go.
bool may_begin(std::string_view bytes, std::string_view begin) {
    const std::size_t both = std::min(bytes.size(), begin.size());
    return bytes.substr(0, both) == begin.substr(0, both);
}

}  // namespace

ProxyHeader read_proxy_header(std::string_view bytes) {
    if (bytes.empty()) return {};
    if (may_begin(bytes, kTextBegin)) {
        return bytes.size() < kTextBegin.size() ? ProxyHeader{} : read_text(bytes);
    }
    if (!may_begin(bytes, kBinaryBegin)) return malformed_header("is missing");
    return bytes.size() < kBinaryBegin.size() ? ProxyHeader{} : read_binary(bytes);
}

bool looks_like_proxy_header(std::string_view bytes) {
    const std::string_view without_line = kBinaryBegin.substr(2);
    return bytes.starts_with(kTextBegin) || bytes.starts_with(kBinaryBegin) ||
           (!bytes.empty() && may_begin(bytes, without_line));
}

}  // namespace tidegate::http

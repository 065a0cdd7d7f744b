#include "base/ip.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/text.hpp"

namespace tidegate {

namespace {

constexpr std::size_t kGroups = 8;

// Reads a number up to 255 off [at, end).
bool take_byte(const char*& at, const char* end, std::uint8_t& byte) {
    const auto digit_at = [end](const char* place) {
        return place != end ? static_cast<unsigned>(*place) - '0' : 10U;
    };
    unsigned value = digit_at(at);
    if (value > 9) return false;
    for (unsigned next = digit_at(++at); next <= 9; next = digit_at(++at)) {
        // A leading zero is octal to some readers and decimal to others.
        if (value == 0) return false;
        value = value * 10 + next;
        if (value > 255) return false;
    }
    byte = static_cast<std::uint8_t>(value);
    return true;
}

bool parse_v4(std::string_view text, std::uint8_t* bytes) {
    const char* at = text.data();
    const char* const end = at + text.size();
    for (int i = 0; i < 4; ++i) {
        if (i > 0 && (at == end || *at++ != '.')) return false;
        if (!take_byte(at, end, bytes[i])) return false;
    }
    return at == end;
}

// Reads up to four hexadecimal digits off the front of `text`.
std::optional<std::uint16_t> take_group(std::string_view& text) {
    unsigned value = 0;
    std::size_t digits = 0;
    for (; digits < text.size() && hex_value(text[digits]) >= 0; ++digits) {
        if (digits == 4) return std::nullopt;
        value = value << 4 | static_cast<unsigned>(hex_value(text[digits]));
    }
    if (digits == 0) return std::nullopt;
    text.remove_prefix(digits);
    return static_cast<std::uint16_t>(value);
}

// RFC 4291 section 2.2.
bool parse_v6(std::string_view text, std::array<std::uint8_t, 16>& bytes) {
    constexpr std::size_t kNoGap = kGroups + 1;
    std::array<std::uint8_t, 16> read{};
    std::size_t groups = 0;
    std::size_t gap = kNoGap;  // the number of groups before `::`
    if (text.starts_with("::")) {
        gap = 0;
        text.remove_prefix(2);
    }
    while (!text.empty()) {
        if (groups == kGroups) return false;
        const std::string_view rest = text;
        const auto group = take_group(text);
        if (!group) return false;
        if (!text.empty() && text.front() == '.') {
            if (groups > kGroups - 2 || !parse_v4(rest, &read[2 * groups])) return false;
            groups += 2;
            break;
        }
        read[2 * groups] = static_cast<std::uint8_t>(*group >> 8);
        read[2 * groups + 1] = static_cast<std::uint8_t>(*group & 0xff);
        ++groups;
        if (text.empty()) break;
        if (text.front() != ':') return false;
        text.remove_prefix(1);
        if (text.empty()) return false;
        if (text.front() == ':') {
            if (gap != kNoGap) return false;
            gap = groups;
            text.remove_prefix(1);
        }
    }
    if (gap == kNoGap) {
        if (groups != kGroups) return false;
        bytes = read;
        return true;
    }
    // `::` replaces at least one group.
    if (groups >= kGroups) return false;
    const auto tail = static_cast<std::ptrdiff_t>(2 * (groups - gap));
    bytes.fill(0);
    std::copy_n(read.begin(), 2 * gap, bytes.begin());
    std::copy_n(read.begin() + static_cast<std::ptrdiff_t>(2 * gap), tail, bytes.end() - tail);
    return true;
}

bool is_v4_mapped(const std::array<std::uint8_t, 16>& bytes) {
    return std::all_of(bytes.begin(), bytes.begin() + 10, [](auto b) { return b == 0; }) &&
           bytes[10] == 0xff && bytes[11] == 0xff;
}

// A byte in decimal, and a dot.
struct ByteText {
    std::array<char, 4> characters;
    std::uint8_t size;
};

constexpr std::array<ByteText, 256> byte_texts() {
    std::array<ByteText, 256> texts{};
    for (unsigned byte = 0; byte < texts.size(); ++byte) {
        ByteText& text = texts[byte];
        const auto add = [&](unsigned character) {
            text.characters[text.size++] = static_cast<char>(character);
        };
        if (byte >= 100) add('0' + byte / 100);
        if (byte >= 10) add('0' + byte / 10 % 10);
        add('0' + byte % 10);
        add('.');
    }
    return texts;
}

// Returns the end of the text; needs room for 16 characters, of which the text takes 15 at most.
// Copies from a table, since every forwarded request has such texts.
char* write_v4(const std::uint8_t* bytes, char* out) {
    static constexpr auto kTexts = byte_texts();
    for (int i = 0; i < 4; ++i) {
        const ByteText& text = kTexts[bytes[i]];
        std::memcpy(out, text.characters.data(), text.characters.size());
        out += text.size;
    }
    return out - 1;
}

struct ZeroRun {
    std::size_t start = kGroups;
    std::size_t length = 0;
};

// The run that `::` replaces: the longest of at least two groups, the first of equals (RFC 5952
// section 4.2).
ZeroRun longest_zero_run(const std::array<std::uint16_t, kGroups>& groups) {
    ZeroRun best;
    for (std::size_t i = 0; i < kGroups;) {
        std::size_t end = i;
        while (end < kGroups && groups[end] == 0) ++end;
        if (end - i > best.length && end - i >= 2) best = {i, end - i};
        i = end + 1;
    }
    return best;
}

char* write_v6(const std::array<std::uint8_t, 16>& bytes, char* out, char* end) {
    std::array<std::uint16_t, kGroups> groups{};
    for (std::size_t i = 0; i < kGroups; ++i)
        groups[i] = static_cast<std::uint16_t>(bytes[2 * i] << 8 | bytes[2 * i + 1]);
    const ZeroRun run = longest_zero_run(groups);
    for (std::size_t i = 0; i < kGroups;) {
        if (i == run.start) {
            *out++ = ':';
            *out++ = ':';
            i += run.length;
            continue;
        }
        if (i > 0 && i != run.start + run.length) *out++ = ':';
        out = std::to_chars(out, end, groups[i], 16).ptr;
        ++i;
    }
    return out;
}

bool is_zone_char(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
}

// A network as it is written: the prefix may be out of range, and bits beyond it may be set.
std::optional<IpNetwork> written_network(std::string_view text) {
    constexpr int kMappedBits = 96;  // of ::ffff:0:0/96, which is all of IPv4
    const auto slash = text.find('/');
    const std::string_view host = text.substr(0, slash);
    const auto ip = parse_ip(host);
    if (!ip) return std::nullopt;
    if (slash == text.npos) return IpNetwork{*ip, ip->v4 ? 32 : 128};

    const std::string_view length = text.substr(slash + 1);
    const auto prefix = parse_number<int>(length);
    if (!prefix || length.front() == '-' || (length.front() == '0' && length.size() > 1)) {
        return std::nullopt;
    }
    const bool is_mapped = ip->v4 && host.find(':') != host.npos;
    return IpNetwork{*ip, is_mapped ? *prefix - kMappedBits : *prefix};
}

bool has_prefix(const IpNetwork& network) {
    return network.prefix >= 0 && network.prefix <= (network.address.v4 ? 32 : 128);
}

// The address of `network` with all bits beyond the prefix set.
std::array<std::uint8_t, 16> last_of(const IpNetwork& network) {
    std::array<std::uint8_t, 16> last = network.address.bytes;
    const int bits = network.address.v4 ? 32 : 128;
    for (int bit = network.prefix; bit < bits; ++bit) {
        last[static_cast<std::size_t>(bit / 8)] |= static_cast<std::uint8_t>(0x80 >> bit % 8);
    }
    return last;
}

}  // namespace

bool IpAddress::is_unspecified() const {
    return std::all_of(bytes.begin(), bytes.end(), [](auto b) { return b == 0; });
}

void IpAddress::append_to(std::string& out) const {
    std::array<char, 48> text;  // the longest has 39 characters
    char* const end = text.data() + text.size();
    char* const last = v4 ? write_v4(bytes.data(), text.data()) : write_v6(bytes, text.data(), end);
    out.append(text.data(), static_cast<std::size_t>(last - text.data()));
}

std::string IpAddress::to_string() const {
    std::string out;
    append_to(out);
    return out;
}

std::optional<IpAddress> parse_ip(std::string_view text) {
    IpAddress ip;
    if (parse_v4(text, ip.bytes.data())) return ip;
    if (!parse_v6(text, ip.bytes)) return std::nullopt;
    ip.v4 = is_v4_mapped(ip.bytes);
    if (ip.v4) {
        std::copy_n(ip.bytes.begin() + 12, 4, ip.bytes.begin());
        std::fill(ip.bytes.begin() + 4, ip.bytes.end(), std::uint8_t{0});
    }
    return ip;
}

std::optional<IpAddress> parse_scoped_ip(std::string_view text) {
    const auto percent = text.find('%');
    if (percent == text.npos) return parse_ip(text);
    const std::string_view address = text.substr(0, percent);
    const std::string_view zone = text.substr(percent + 1);
    const bool may_have_zone = address.find(':') != address.npos;
    if (!may_have_zone || zone.empty() || !std::all_of(zone.begin(), zone.end(), is_zone_char)) {
        return std::nullopt;
    }
    return parse_ip(address);
}

bool IpNetwork::contains(const IpAddress& ip) const {
    if (ip.v4 != address.v4) return false;
    const auto whole = static_cast<std::size_t>(prefix / 8);
    if (std::memcmp(ip.bytes.data(), address.bytes.data(), whole) != 0) return false;
    const int rest = prefix % 8;
    if (rest == 0) return true;
    return (ip.bytes[whole] ^ address.bytes[whole]) >> (8 - rest) == 0;
}

std::optional<IpNetwork> parse_network(std::string_view text) {
    const auto written = written_network(text);
    if (!written || !has_prefix(*written)) return std::nullopt;
    const IpAddress& address = written->address;
    return masked(address, written->prefix) == address ? written : std::nullopt;
}

std::string advice_about_network(std::string_view text) {
    const auto written = written_network(text);
    if (!written) return {};
    if (!has_prefix(*written)) {
        return written->address.v4 ? "an IPv4 prefix is 0 to 32" : "an IPv6 prefix is 0 to 128";
    }
    const IpAddress first = masked(written->address, written->prefix);
    return "write `" + first.to_string() + "/" + std::to_string(written->prefix) + "`";
}

IpAddress masked(const IpAddress& ip, int prefix) {
    if (prefix >= ip.bits()) return ip;
    IpAddress out = ip;
    const auto whole = static_cast<std::size_t>(std::max(prefix, 0) / 8);
    const int rest = std::max(prefix, 0) % 8;
    out.bytes[whole] &= static_cast<std::uint8_t>(0xff00 >> rest);
    std::fill(out.bytes.begin() + static_cast<std::ptrdiff_t>(whole) + 1, out.bytes.end(),
              std::uint8_t{0});
    return out;
}

IpAddress IpPrefixes::widest(const IpAddress& ip) const {
    const std::vector<int>& prefixes = of(ip);
    return masked(ip, *std::min_element(prefixes.begin(), prefixes.end()));
}

IpNetworks::IpNetworks(std::vector<IpNetwork> written) : written_(std::move(written)) {
    for (const IpNetwork& network : written_) {
        Ranges& its = network.address.v4 ? v4_ : v6_;
        its.push_back({network.address.bytes, last_of(network)});
    }
    merge(v4_);
    merge(v6_);
}

// Two networks are apart, or one contains the other.
void IpNetworks::merge(Ranges& ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const Range& one, const Range& other) {
        return one.first != other.first ? one.first < other.first : one.last > other.last;
    });
    const auto is_inside = [](const Range& outer, const Range& inner) {
        return inner.last <= outer.last;
    };
    ranges.erase(std::unique(ranges.begin(), ranges.end(), is_inside), ranges.end());
    ranges.shrink_to_fit();
}

bool IpNetworks::contains(const IpAddress& ip) const {
    const Ranges& its = ranges(ip.v4);
    const auto above = std::upper_bound(
        its.begin(), its.end(), ip.bytes,
        [](const Bytes& bytes, const Range& range) { return bytes < range.first; });
    return above != its.begin() && ip.bytes <= std::prev(above)->last;
}

const IpNetwork* IpNetworks::find(const IpAddress& ip) const {
    const auto found = std::find_if(written_.begin(), written_.end(),
                                    [&](const IpNetwork& one) { return one.contains(ip); });
    return found != written_.end() ? &*found : nullptr;
}

}  // namespace tidegate

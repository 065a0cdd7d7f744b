#include "identity/identifier.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <new>

#include <openssl/evp.h>

namespace tidegate::identity {
namespace {

constexpr std::string_view kHexLower = "0123456789abcdef";
constexpr std::string_view kHexUpper = "0123456789ABCDEF";
constexpr int kIpv6Bits = 128;

// Braces would end a Redis hash tag; the rest would not survive a log or a terminal.
bool must_be_encoded(char c) {
    return c < ' ' || c > '~' || c == '{' || c == '}' || c == '%';
}

void append_encoded(char c, std::string& out) {
    const auto byte = static_cast<std::uint8_t>(c);
    out += '%';
    out += kHexUpper[byte >> 4];
    out += kHexUpper[byte & 0xf];
}

void append_sha256(std::string_view text, std::string& out) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    // SHA-256 of bytes in memory fails only for want of memory.
    if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
        throw std::bad_alloc();
    for (unsigned i = 0; i < size; ++i) {
        out += kHexLower[digest[i] >> 4];
        out += kHexLower[digest[i] & 0xf];
    }
}

}  // namespace

void append_ip_identifier(const IpAddress& ip, int ipv6_prefix, std::string& out) {
    out += "ip:";
    if (ip.v4 || ipv6_prefix >= kIpv6Bits) {
        ip.append_to(out);
        return;
    }
    masked(ip, ipv6_prefix).append_to(out);
    std::array<char, 12> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), ipv6_prefix);
    out += '/';
    out.append(digits.data(), end.ptr);
}

void append_user_identifier(std::string_view user, std::string& out) {
    const std::size_t start = out.size();
    out += "user:";
    const std::size_t name = out.size();
    for (const char c : user) {
        const bool leading_hash = c == '#' && out.size() == name;
        if (must_be_encoded(c) || leading_hash)
            append_encoded(c, out);
        else
            out += c;
        if (out.size() - start <= kIdentifierBytesMax) continue;
        out.resize(name);
        out += '#';
        append_sha256(user, out);
        return;
    }
}

}  // namespace tidegate::identity

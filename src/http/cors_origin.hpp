// An Origin is that of a web page, as browsers write it in the field `Origin` (RFC 6454 section
// 6.2); an OriginList has the origins that `cors` allows. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tidegate::http {

// Longer texts are no origins: a host name has at most 253 bytes.
inline constexpr std::size_t kOriginBytesMax = 512;

// The parts of `https://app.example.com:8443`, as views into the text and in its case.
struct Origin {
    std::string_view scheme;
    std::string_view host;   // an IPv6 address with its brackets
    std::uint16_t port = 0;  // 80 of `http` and 443 of `https` where none is written; else 0
};

// Returns nothing for `null`, for several origins in one text, and for anything that has more than
// a scheme, a host and a port, or characters that no browser writes there.
std::optional<Origin> parse_origin(std::string_view text);

// An origin that is allowed, or all origins of the subdomains of a host.
struct OriginPattern {
    std::string scheme;  // lower case
    std::string host;    // lower case
    std::uint16_t port = 0;
    bool subdomains = false;  // `*.` before the host: one or more labels, not the host alone

    bool matches(const Origin& origin) const;
    bool operator==(const OriginPattern&) const = default;
};

// Reads `https://app.example.com` or `https://*.example.org:8443`. The error continues a message
// that begins with the text in quotes: "has a path: ...".
Result<OriginPattern, std::string> parse_origin_pattern(std::string_view text);

// Holds the list `response.cors.origins`.
struct OriginList {
    bool any = false;     // `*`
    bool opaque = false;  // `null`: sandboxed frames, local files, redirects
    std::vector<OriginPattern> patterns;

    // Whether a page of this origin is allowed. `text` is the whole value of the field `Origin`;
    // an empty one is none.
    bool include(std::string_view text) const;
};

}  // namespace tidegate::http

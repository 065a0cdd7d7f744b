#include "faces/https_location.hpp"

#include "base/numbers.hpp"

namespace tidegate::faces {

namespace {

constexpr std::uint16_t kHttpsPort = 443;

std::string_view without_port(std::string_view host) {
    const std::size_t literal_end = host.front() == '[' ? host.find(']') : 0;
    return host.substr(0, host.find(':', literal_end));
}

}  // namespace

std::string https_location(std::string_view host, std::uint16_t port,
                           const http::RequestHead& head) {
    std::string out("https://");
    out += without_port(host);
    if (port != kHttpsPort) {
        out += ':';
        append_number(port, out);
    }
    // `OPTIONS *` is about the server, whose URI has no path (RFC 9112 section 3.3).
    if (head.path == "*") return out;
    // Not the target as sent, which may name another scheme and host.
    return out.append(head.path).append(head.query);
}

}  // namespace tidegate::faces

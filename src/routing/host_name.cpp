#include "routing/host_name.hpp"

#include <algorithm>
#include <string>

#include "base/ascii.hpp"
#include "base/ip.hpp"

namespace tidegate::routing {
namespace {

// `[2001:DB8:0::1]` is `[2001:db8::1]`; what is no address stays as it is.
std::string one_spelling(std::string_view literal) {
    const auto ip = parse_ip(literal.substr(1, literal.size() - 2));
    return ip ? "[" + ip->to_string() + "]" : std::string(literal);
}

}  // namespace

HostName::HostName(std::string_view host) {
    host = without_port(host);
    if (host.ends_with('.')) host.remove_suffix(1);
    std::string literal;
    if (host.starts_with('[') && host.ends_with(']')) host = literal = one_spelling(host);
    if (host.size() > bytes_.size()) return;  // names nothing
    size_ = host.size();
    std::transform(host.begin(), host.end(), bytes_.begin(), [](char c) { return to_lower(c); });
}

std::string_view HostName::without_port(std::string_view host) {
    if (host.starts_with('[')) return host.substr(0, std::min(host.find(']'), host.size() - 1) + 1);
    return host.substr(0, host.find(':'));
}

}  // namespace tidegate::routing

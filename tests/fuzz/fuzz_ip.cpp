// Addresses and networks: read as inet_pton reads them, one spelling each, masks that hold.
#include <arpa/inet.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/ip.hpp"
#include "fuzz_check.hpp"

namespace {

using tidegate::IpAddress;

void check_address(const std::string& text) {
    const auto ip = tidegate::parse_ip(text);
    std::array<std::uint8_t, 16> expected{};
    const bool whole = text.find('\0') == text.npos;
    const bool known = whole && (inet_pton(AF_INET, text.c_str(), expected.data()) == 1 ||
                                 inet_pton(AF_INET6, text.c_str(), expected.data()) == 1);
    FUZZ_CHECK(ip.has_value() == known);
    if (!ip) return;
    const std::string canonical = ip->to_string();
    FUZZ_CHECK(canonical.size() <= 39);
    FUZZ_CHECK(tidegate::parse_ip(canonical) == ip);
    for (const int prefix : {0, 1, 48, 63, 64, 65, 127, 128}) {
        const IpAddress network = tidegate::masked(*ip, prefix);
        FUZZ_CHECK(tidegate::masked(network, prefix) == network);
        if (!ip->v4) FUZZ_CHECK((tidegate::IpNetwork{network, prefix}.contains(*ip)));
    }
}

void check_network(std::string_view text) {
    const auto network = tidegate::parse_network(text);
    if (!network) return;
    FUZZ_CHECK(network->prefix >= 0 && network->prefix <= (network->address.v4 ? 32 : 128));
    FUZZ_CHECK(network->contains(network->address));
    const auto again = tidegate::parse_network(network->address.to_string() + "/" +
                                               std::to_string(network->prefix));
    FUZZ_CHECK(again && again->address == network->address && again->prefix == network->prefix);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    check_address(text);
    check_network(text);
    return 0;
}

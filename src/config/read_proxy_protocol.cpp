// A balancer in front of a listener: `proxy_protocol` and `forwarded_proto`.
#include <utility>
#include <vector>

#include "base/quote.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

constexpr std::string_view kNoSenders =
    "the networks of your balancers are missing: write `proxy_protocol: {from: [10.0.0.0/8]}`. "
    "Tidegate closes connections from any other address";

void read_senders(const Value& value, ProxyProtocol& proxy_protocol) {
    constexpr ListRule kSenders{"a network or a list of networks", "networks", 10'000,
                                "the list is empty: Tidegate would close every connection"};
    std::vector<IpNetwork> from;
    for (const Value& item : value.one_or_more(kSenders)) {
        const auto network = read_network(item);
        if (!network) continue;
        if (network->prefix == 0) {
            item.warn(
                "this network contains every address, so any machine that can connect may claim "
                "any address: list the networks of your balancers");
        }
        from.push_back(*network);
    }
    proxy_protocol.from = IpNetworks(std::move(from));
}

void read_protocol(const Value& value, bool is_unix, Listen& listen) {
    ProxyProtocol proxy_protocol;
    if (value.is_map()) {
        Section section(value);
        const auto from = section.find("from");
        if (from && is_unix) {
            from->fault(
                "peers of a Unix socket have no address: write `proxy_protocol: on`, and let the "
                "file permissions of the socket admit only your balancer");
        } else if (from) {
            read_senders(*from, proxy_protocol);
        }
        section.refuse_others();
        if (!from && !is_unix) value.fault(std::string(kNoSenders));
    } else if (value.is_off() || (is_unix && !value.toggle())) {
        return;
    } else if (!is_unix) {
        return value.fault(std::string(kNoSenders));
    }
    listen.proxy_protocol = std::move(proxy_protocol);
}

}  // namespace

bool ProxyProtocol::admits(const std::optional<IpAddress>& peer) const {
    return !peer || from.contains(*peer);
}

void read_balancer(Section& section, const std::optional<Address>& address, Listen& listen) {
    if (const auto value = section.find("proxy_protocol")) {
        read_protocol(*value, address && address->is_unix(), listen);
    }
    section.choice("forwarded_proto", listen.is_https, {{"http", false}, {"https", true}});
}

}  // namespace tidegate::config

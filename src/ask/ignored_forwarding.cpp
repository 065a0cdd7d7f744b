#include "ask/ignored_forwarding.hpp"

#include <chrono>
#include <string>
#include <string_view>

#include "ask/network_notices.hpp"
#include "telemetry/log.hpp"

namespace tidegate::ask {

namespace {

using telemetry::Level;

std::string_view field_of(const Facts& facts) {
    for (const http::Field& field : facts.head.fields) {
        if (field.id == http::FieldName::x_forwarded_for) return "X-Forwarded-For";
    }
    return "Forwarded";
}

}  // namespace

void log_ignored_forwarding(const Facts& facts) {
    static NetworkNotices notices;
    const auto& peer = facts.peer.address;
    if (!notices.is_due(peer, std::chrono::steady_clock::now())) return;
    if (!peer) {
        telemetry::log(Level::warn,
                       "a peer on a Unix socket sends {}, and Tidegate ignores it: if the peer is "
                       "your proxy, write `trusted: on` beside the address of the listener. "
                       "Counted in tidegate_forwarding_ignored_total; logged once an hour",
                       field_of(facts));
        return;
    }
    const IpNetwork network = noticed_network(*peer);
    const std::string address = peer->to_string();
    telemetry::log(Level::warn,
                   "{} sends {}, and Tidegate ignores it, as {} is not in trusted_proxies: all its "
                   "requests count as the client {}. If it is your proxy, write `identity: "
                   "{{client_ip: {{trusted_proxies: [{}]}}}}`; if it is a client, do nothing. "
                   "Counted in tidegate_forwarding_ignored_total; logged once an hour for {}/{}",
                   address, field_of(facts), address, address, address, network.address.to_string(),
                   network.prefix);
}

}  // namespace tidegate::ask

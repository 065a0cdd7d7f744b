#include "identity/client_ip.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "identity/forwarded_hop.hpp"

namespace tidegate::identity {
namespace {

using http::FieldName;

// Walks a chain from the right, one hop at a time, from the peer towards the client.
class Walk {
  public:
    Walk(const std::optional<IpAddress>& peer, const ClientIpSettings& settings)
        : settings_(settings), client_(peer) {}

    // Takes the next hop to the left. False when the walk ends there.
    bool step(const std::optional<IpAddress>& hop) {
        if (!hop || hop->is_unspecified()) return false;
        client_ = hop;
        return settings_.trusts(*hop);
    }

    const std::optional<IpAddress>& client() const { return client_; }

  private:
    const ClientIpSettings& settings_;
    std::optional<IpAddress> client_;
};

// Several fields are one list in their order (RFC 9110 section 5.3), so the last comes first.
// `take_last` cuts the last item off a value, `read` makes an address of it.
template <class TakeLast, class Read>
void walk_chain(const http::Fields& fields, FieldName name, TakeLast take_last, Read read,
                Walk& walk) {
    for (auto field = fields.rbegin(); field != fields.rend(); ++field) {
        if (field->id != name) continue;
        std::string_view rest = field->value;
        bool more = true;
        while (more) {
            const std::string_view item = take_last(rest, more);
            if (!walk.step(read(item))) return;
        }
    }
}

std::optional<IpAddress> named_client(const Peer& peer, const http::Fields& fields,
                                      const ClientIpSettings& settings) {
    Walk walk(peer.address, settings);
    switch (settings.source) {
        case ClientIpSettings::Source::x_forwarded_for:
            walk_chain(fields, FieldName::x_forwarded_for, take_last_address, read_address, walk);
            break;
        case ClientIpSettings::Source::forwarded:
            walk_chain(fields, FieldName::forwarded, take_last_element, read_forwarded_element,
                       walk);
            break;
        case ClientIpSettings::Source::single:
            walk.step(read_address(http::single_value(fields, settings.single_field)));
            break;
    }
    return walk.client();
}

}  // namespace

bool ClientIpSettings::trusts(const IpAddress& peer) const {
    return std::any_of(trusted_proxies.begin(), trusted_proxies.end(),
                       [&](const IpNetwork& network) { return network.contains(peer); });
}

std::optional<IpAddress> client_address(const Peer& peer, const http::Fields& fields,
                                        const ClientIpSettings& settings) {
    const auto client = peer.trusted ? named_client(peer, fields, settings) : peer.address;
    if (client && client->is_unspecified()) return std::nullopt;
    return client;
}

}  // namespace tidegate::identity

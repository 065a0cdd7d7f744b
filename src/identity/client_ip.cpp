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
    Walk(const std::optional<IpAddress>& peer, const ClientIpSettings& settings,
         std::vector<Hop>* hops)
        : settings_(settings), client_(peer), hops_(hops) {}

    // Whether another hop to the left may be read. Else that is the chain's fault.
    bool may_go_on() {
        if (steps_ < kHopsMax) return true;
        fault_ = ChainFault::too_long;
        return false;
    }

    // Takes the next hop to the left, which `text` was read as. False when the walk ends there.
    bool step(std::string_view text, const std::optional<IpAddress>& hop) {
        ++steps_;
        const Hop::Kind kind = kind_of(hop);
        if (hops_ != nullptr) hops_->push_back({text, hop, kind});
        if (kind == Hop::Kind::trusted || kind == Hop::Kind::client) client_ = hop;
        if (kind == Hop::Kind::unreadable) fault_ = ChainFault::unreadable;
        if (kind == Hop::Kind::unspecified) fault_ = ChainFault::unspecified;
        return kind == Hop::Kind::trusted;
    }

    const std::optional<IpAddress>& client() const { return client_; }
    ChainFault fault() const { return fault_; }
    void set_fault(ChainFault fault) { fault_ = fault; }

  private:
    Hop::Kind kind_of(const std::optional<IpAddress>& hop) const {
        if (!hop) return Hop::Kind::unreadable;
        if (hop->is_unspecified()) return Hop::Kind::unspecified;
        return settings_.trusts(*hop) ? Hop::Kind::trusted : Hop::Kind::client;
    }

    const ClientIpSettings& settings_;
    std::optional<IpAddress> client_;
    std::vector<Hop>* hops_;
    std::size_t steps_ = 0;
    ChainFault fault_ = ChainFault::none;
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
            if (!walk.may_go_on()) return;
            const std::string_view item = take_last(rest, more);
            if (!walk.step(item, read(item))) return;
        }
    }
}

// Read as the empty text, which is no address, when it is missing or there twice.
void walk_single(const http::Fields& fields, std::string_view name, Walk& walk) {
    const std::string_view item = http::single_value(fields, name);
    walk.step(item, read_address(item));
    if (!item.empty()) return;
    const bool is_there = std::any_of(fields.begin(), fields.end(), [&](const http::Field& field) {
        return http::equal_as_variable(field.name, name);
    });
    walk.set_fault(is_there ? ChainFault::repeated : ChainFault::none);
}

std::optional<IpAddress> named_client(const Peer& peer, const http::Fields& fields,
                                      const ClientIpSettings& settings, std::vector<Hop>* hops,
                                      ChainFault* fault) {
    Walk walk(peer.is_gateway ? std::nullopt : peer.address, settings, hops);
    switch (settings.source) {
        case ClientIpSettings::Source::x_forwarded_for:
            walk_chain(fields, FieldName::x_forwarded_for, take_last_address, read_address, walk);
            break;
        case ClientIpSettings::Source::forwarded:
            walk_chain(fields, FieldName::forwarded, take_last_element, read_forwarded_element,
                       walk);
            break;
        case ClientIpSettings::Source::single:
            walk_single(fields, settings.single_field, walk);
            break;
    }
    if (fault != nullptr && walk.fault() != ChainFault::none) *fault = walk.fault();
    return walk.client();
}

}  // namespace

std::string_view field_of(const ClientIpSettings& settings) {
    switch (settings.source) {
        case ClientIpSettings::Source::x_forwarded_for:
            return "x-forwarded-for";
        case ClientIpSettings::Source::forwarded:
            return "forwarded";
        case ClientIpSettings::Source::single:
            break;
    }
    return settings.single_field;
}

std::string_view describe(ChainFault fault) {
    switch (fault) {
        case ChainFault::none:
            break;
        case ChainFault::unreadable:
            return "has an entry that is not an IP address";
        case ChainFault::unspecified:
            return "has 0.0.0.0 or ::, which is not a client's address";
        case ChainFault::too_long:
            return "has more than 100 entries of trusted proxies";
        case ChainFault::repeated:
            return "is sent twice, is empty, or has another character for `-` in its name";
    }
    return "";
}

std::optional<IpAddress> client_address(const Peer& peer, const http::Fields& fields,
                                        const ClientIpSettings& settings, std::vector<Hop>* hops,
                                        ChainFault* fault) {
    ChainFault in_chain = ChainFault::none;
    const auto client = peer.trusted || peer.is_gateway
                            ? named_client(peer, fields, settings, hops, &in_chain)
                            : peer.address;
    if (fault != nullptr && in_chain != ChainFault::none) *fault = in_chain;
    if (client && client->is_unspecified()) return std::nullopt;
    // A gateway speaks for all clients: the last good hop may be another gateway's.
    if (peer.is_gateway && in_chain != ChainFault::none) return std::nullopt;
    return client;
}

}  // namespace tidegate::identity

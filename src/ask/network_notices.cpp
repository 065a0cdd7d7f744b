#include "ask/network_notices.hpp"

#include <algorithm>

namespace tidegate::ask {

namespace {

constexpr int kPrefixV4 = 24;
constexpr int kPrefixV6 = 64;

}  // namespace

IpNetwork noticed_network(const IpAddress& address) {
    if (!address.v4) return {masked(address, kPrefixV6), kPrefixV6};
    IpNetwork network{address, kPrefixV4};
    network.address.bytes[3] = 0;
    return network;
}

bool NetworkNotices::is_due(const std::optional<IpAddress>& peer, Time now) {
    std::optional<IpAddress> network;
    if (peer) network = noticed_network(*peer).address;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    auto* const end = notices_.begin() + size_;
    auto* notice = std::find_if(notices_.begin(), end,
                                [&](const Notice& one) { return one.network == network; });
    if (notice != end) {
        if (now < notice->next) return false;
    } else if (size_ < notices_.size()) {
        ++size_;
    } else {
        notice =
            std::find_if(notices_.begin(), end, [&](const Notice& one) { return one.next <= now; });
        if (notice == end) return false;
    }
    *notice = {network, now + kEvery};
    return true;
}

}  // namespace tidegate::ask

#include "base/ip_networks.hpp"

#include <algorithm>
#include <utility>

namespace tidegate {

namespace {

// The address of `network` with all bits beyond the prefix set.
std::array<std::uint8_t, 16> last_of(const IpNetwork& network) {
    std::array<std::uint8_t, 16> last = network.address.bytes;
    const int bits = network.address.v4 ? 32 : 128;
    for (int bit = network.prefix; bit < bits; ++bit) {
        last[static_cast<std::size_t>(bit / 8)] |= static_cast<std::uint8_t>(0x80 >> bit % 8);
    }
    return last;
}

}  // namespace

IpNetworks::IpNetworks(std::vector<IpNetwork> written) : written_(std::move(written)) {
    for (const IpNetwork& network : written_) {
        Ranges& its = network.address.v4 ? v4_ : v6_;
        its.push_back({network.address.bytes, last_of(network)});
    }
    merge(v4_);
    merge(v6_);
}

// Two networks are apart, or one contains the other.
void IpNetworks::merge(Ranges& ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const Range& one, const Range& other) {
        return one.first != other.first ? one.first < other.first : one.last > other.last;
    });
    const auto is_inside = [](const Range& outer, const Range& inner) {
        return inner.last <= outer.last;
    };
    ranges.erase(std::unique(ranges.begin(), ranges.end(), is_inside), ranges.end());
    ranges.shrink_to_fit();
}

bool IpNetworks::contains(const IpAddress& ip) const {
    const Ranges& its = ranges(ip.v4);
    const auto above = std::upper_bound(
        its.begin(), its.end(), ip.bytes,
        [](const Bytes& bytes, const Range& range) { return bytes < range.first; });
    return above != its.begin() && ip.bytes <= std::prev(above)->last;
}

const IpNetwork* IpNetworks::find(const IpAddress& ip) const {
    const auto found = std::find_if(written_.begin(), written_.end(),
                                    [&](const IpNetwork& one) { return one.contains(ip); });
    return found != written_.end() ? &*found : nullptr;
}

}  // namespace tidegate

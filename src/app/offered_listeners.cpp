#include "app/offered_listeners.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

auto find_offer(OfferedListeners& offered, const std::string& address) {
    return std::find_if(offered.begin(), offered.end(),
                        [&](const OfferedListener& one) { return one.address == address; });
}

}  // namespace

void add_offer(OfferedListeners& to, const std::string& address,
               std::vector<Descriptor>&& descriptors) {
    auto same = find_offer(to, address);
    if (same == to.end()) same = to.insert(to.end(), OfferedListener{address, {}});
    std::move(descriptors.begin(), descriptors.end(), std::back_inserter(same->descriptors));
}

std::optional<Result<std::vector<ListenerGroup>, std::string>> take_offered(
    const config::Listen& settings, OfferedListeners& offered, std::size_t workers) {
    const auto offer = find_offer(offered, settings.address.to_string());
    if (offer == offered.end() || offer->descriptors.empty()) return std::nullopt;
    std::vector<std::vector<Descriptor>> sockets;
    if (settings.address.is_inherited()) {
        for (Descriptor& one : offer->descriptors) sockets.emplace_back().push_back(std::move(one));
    } else {
        sockets.push_back(std::move(offer->descriptors));
    }
    offered.erase(offer);
    std::vector<ListenerGroup> groups;
    for (std::vector<Descriptor>& one : sockets) {
        auto group = take_listeners(settings, std::move(one), workers);
        if (!group) return group.error();
        groups.push_back(std::move(*group));
    }
    return groups;
}

void discard(OfferedListeners& offered) {
    for (const OfferedListener& one : offered) {
        telemetry::log(telemetry::Level::info, "no longer listens on {}", one.address);
        if (one.descriptors.empty()) continue;
        const config::Address at = bound_address(one.descriptors.front().get());
        if (at.is_unix() && at.unix_path.starts_with('/')) ::unlink(at.unix_path.c_str());
    }
    offered.clear();
}

}  // namespace tidegate::app

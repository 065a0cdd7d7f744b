#include "app/offered_listeners.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "app/inherited_sockets.hpp"
#include "config/address.hpp"
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
    std::vector<Descriptor> sockets = std::move(offer->descriptors);
    offered.erase(offer);
    if (settings.address.is_inherited()) {
        InheritedSockets inherited;
        inherited.reserve(sockets.size());
        for (Descriptor& one : sockets) {
            inherited.push_back({settings.address.inherited, std::move(one)});
        }
        return adopt_inherited(settings, inherited, workers);
    }
    auto group = take_listeners(settings, std::move(sockets), workers);
    if (!group) return group.error();
    return std::vector<ListenerGroup>{std::move(*group)};
}

void discard(OfferedListeners& offered) {
    for (const OfferedListener& one : offered) {
        telemetry::log(telemetry::Level::info, "no longer listens on {}", one.address);
        if (one.descriptors.empty() || one.address.starts_with(config::kInherited)) continue;
        const config::Address at = bound_address(one.descriptors.front().get());
        if (at.is_unix() && !at.unix_path.starts_with('@')) ::unlink(at.unix_path.c_str());
    }
    offered.clear();
}

}  // namespace tidegate::app

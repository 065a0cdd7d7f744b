#include "app/offered_listeners.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "app/inherited_sockets.hpp"
#include "config/address.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

void add_offer(OfferedListeners& to, const std::string& address,
               std::vector<Descriptor>&& descriptors) {
    if (descriptors.empty()) return;
    // Port 0 is another port for each listener, and several sockets may be inherited by one name.
    const config::Address bound = bound_address(descriptors.front().get());
    auto same = std::find_if(to.begin(), to.end(), [&](const OfferedListener& one) {
        return one.address == address && bound_address(one.descriptors.front().get()) == bound;
    });
    if (same == to.end()) same = to.insert(to.end(), OfferedListener{address, {}});
    std::move(descriptors.begin(), descriptors.end(), std::back_inserter(same->descriptors));
}

std::optional<Result<std::vector<ListenerGroup>, std::string>> take_offered(
    const config::Listen& settings, OfferedListeners& offered, std::size_t workers) {
    const auto is_there = [&](const OfferedListener& one) {
        return one.address == settings.address.to_string();
    };
    const auto offer = std::find_if(offered.begin(), offered.end(), is_there);
    if (offer == offered.end()) return std::nullopt;
    if (settings.address.is_inherited()) {
        InheritedSockets inherited;
        for (OfferedListener& one : offered) {
            if (!is_there(one)) continue;
            inherited.push_back({settings.address.inherited, std::move(one.descriptors.front())});
        }
        std::erase_if(offered, is_there);
        return adopt_inherited(settings, inherited, workers);
    }
    auto group = take_listeners(settings, std::move(offer->descriptors), workers);
    offered.erase(offer);
    if (!group) return group.error();
    return std::vector<ListenerGroup>{std::move(*group)};
}

void discard(OfferedListeners& offered) {
    for (const OfferedListener& one : offered) {
        telemetry::log(telemetry::Level::info, "no longer listens on {}", one.address);
        if (one.address.starts_with(config::kInherited)) continue;
        const config::Address at = bound_address(one.descriptors.front().get());
        if (at.is_unix() && !at.unix_path.starts_with('@')) ::unlink(at.unix_path.c_str());
    }
    offered.clear();
}

}  // namespace tidegate::app

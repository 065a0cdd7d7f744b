#include "app/client_listeners.hpp"

#include <iterator>
#include <utility>

#include "base/quote.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

Result<std::vector<ListenerGroup>, std::string> open_client_listeners(const config::Config& config,
                                                                      InheritedSockets& inherited,
                                                                      OfferedListeners& offered,
                                                                      std::size_t workers) {
    std::vector<ListenerGroup> groups;
    for (const config::Listen& listen : config.listen) {
        if (auto taken = take_offered(listen, offered, workers)) {
            if (!*taken) return taken->error();
            std::move((*taken)->begin(), (*taken)->end(), std::back_inserter(groups));
            continue;
        }
        if (listen.address.is_inherited()) {
            auto adopted = adopt_inherited(listen, inherited, workers);
            if (!adopted) return adopted.error();
            std::move(adopted->begin(), adopted->end(), std::back_inserter(groups));
            continue;
        }
        auto group = open_listeners(listen, workers);
        if (!group) return group.error();
        groups.push_back(std::move(*group));
    }
    for (const InheritedSocket& unused : inherited) {
        if (!unused.descriptor) continue;
        telemetry::log(telemetry::Level::warn,
                       "the service manager passes the socket {}, which `listen` does not name: "
                       "its clients get no answer",
                       quote(unused.name));
    }
    return groups;
}

}  // namespace tidegate::app

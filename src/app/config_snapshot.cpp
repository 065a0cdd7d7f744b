#include "app/config_snapshot.hpp"

#include <algorithm>
#include <utility>

namespace tidegate::app {

const ListenerTls* find_listener_tls(const std::vector<ListenerTls>& all,
                                     const config::Address& address) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const ListenerTls& one) { return one.address == address; });
    return found == all.end() ? nullptr : &*found;
}

Result<std::vector<ListenerTls>, std::string> make_listener_tls(
    const config::Config& config, const std::vector<ListenerTls>& before, SteadyTime now) {
    std::vector<ListenerTls> all;
    for (const config::Listen& listen : config.listen) {
        if (!listen.tls) continue;
        const ListenerTls* const former = find_listener_tls(before, listen.address);
        if (former != nullptr && former->settings == *listen.tls) {
            all.push_back(*former);
            continue;
        }
        auto credentials = parse_credentials(*listen.tls);
        if (!credentials) {
            return "the listener on " + listen.address.to_string() + ": " + credentials.error();
        }
        all.push_back({listen.address, *listen.tls, std::move(*credentials),
                       former != nullptr
                           ? former->tickets
                           : std::make_shared<TicketKeys>(listen.tls->ticket_keys, now)});
    }
    return all;
}

void use_ticket_keys(const std::vector<ListenerTls>& all, SteadyTime now) {
    for (const ListenerTls& one : all) one.tickets->use(one.settings.ticket_keys, now);
}

void rotate_ticket_keys(const std::vector<ListenerTls>& all, SteadyTime now) {
    for (const ListenerTls& one : all) one.tickets->rotate(now);
}

}  // namespace tidegate::app

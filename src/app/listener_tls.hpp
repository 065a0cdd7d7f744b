// What the listeners of the process speak TLS with, made once for all workers; each makes a
// TlsServer of its own of it. On the main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "net/deadline.hpp"
#include "tls/ticket_keys.hpp"
#include "tls/tls_server.hpp"

namespace tidegate::app {

// Of one listener. Immutable, but for the keys, which lock for themselves; any thread.
struct ListenerTls {
    config::Address address;     // as the configuration has it
    TlsServerSettings settings;  // that the credentials were made of
    std::shared_ptr<const ServerCredentials> credentials;
    std::shared_ptr<TicketKeys> tickets;  // the same for as long as the process lives

    bool operator==(const ListenerTls&) const = default;
};

// Those of the listeners of `config` that speak TLS. What the settings leave as it was is that of
// `before`. Or what is wrong with the settings, as a sentence. Throws std::runtime_error when the
// system has no random bytes.
Result<std::vector<ListenerTls>, std::string> make_listener_tls(
    const config::Config& config, const std::vector<ListenerTls>& before, SteadyTime now);

// From now on tickets are made with what `all` say.
void use_ticket_keys(const std::vector<ListenerTls>& all, SteadyTime now);
// Makes new keys when it is time.
void rotate_ticket_keys(const std::vector<ListenerTls>& all, SteadyTime now);

// Null: the listener at `address`, as the configuration has it, speaks in the clear.
const ListenerTls* find_listener_tls(const std::vector<ListenerTls>& all,
                                     const config::Address& address);

}  // namespace tidegate::app

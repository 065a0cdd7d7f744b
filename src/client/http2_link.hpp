// What the streams of an HTTP/2 connection share. The connection owns it; one thread.
#pragma once

#include <cstddef>
#include <optional>

#include "base/ip.hpp"
#include "client/arrival.hpp"
#include "client/body_budget.hpp"
#include "h2/server.hpp"
#include "net/buffer.hpp"
#include "net/connection.hpp"
#include "net/wakeup.hpp"

namespace tidegate::client {

struct Http2Link {
    // Gathers what there is to send, as far as there is room for it, and has the connection write
    // it at the end of this turn. `bytes`: about how much that is.
    void gather(std::size_t bytes);
    // Has the connection write what there is at the end of this turn.
    void write_later() { sleeper.wakeup().wake_later(); }
    // Tells the streams what the output has brought. Runs none of them.
    void tell_streams();
    // What the bodies of requests from `address` count for.
    const BodyBudget::AccountPtr& account();

    const DeadlineWheel& clock;
    h2::Server server;
    ConnectionPtr connection;
    Buffer output;         // gathered and not written
    h2::EventList events;  // of the output
    BodyBudget& bodies;
    // Of the other end of the connection, as it counts: an IPv6 address is a prefix.
    std::optional<IpAddress> address;
    Sleeper sleeper;  // of the connection's coroutine
    Arrival arrival;
    const bool& is_draining;                // the worker is
    bool is_cut_off = false;                // the proxy has reset the connection
    bool is_over = false;                   // nothing comes or goes any more
    BodyBudget::AccountPtr body_account{};  // null: no body has come yet
};

}  // namespace tidegate::client

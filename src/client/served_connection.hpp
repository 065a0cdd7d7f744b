// A client's connection that is served, whatever it speaks: what a worker does with all of them.
#pragma once

#include <boost/intrusive/list.hpp>

#include "client/arrival.hpp"

namespace tidegate::client {

// In the worker's list while it lives. One thread.
class ServedConnection : public boost::intrusive::list_base_hook<
                             boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    virtual ~ServedConnection() = default;

    // The worker drains: an idle connection closes, a busy one once it has answered. Tunnels are
    // told, and end when their turn comes.
    virtual void on_drain() = 0;
    // Resets the connection, whatever it is doing.
    virtual void cut_off() = 0;
    // The time to drain has ended: breaks off requests and what waits for one, or tunnels. False:
    // there were none.
    virtual bool cut_requests() = 0;
    virtual bool cut_tunnels() = 0;

    virtual const identity::Peer& peer() const = 0;
    // It serves no request: it may be cut off in favour of another client's.
    virtual bool is_evictable() const = 0;
};

using ServedConnectionList =
    boost::intrusive::list<ServedConnection, boost::intrusive::constant_time_size<false>>;

}  // namespace tidegate::client

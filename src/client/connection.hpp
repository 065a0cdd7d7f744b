// A client's connection, whatever it speaks: what a worker does with all of them, what they share,
// and how they close.
#pragma once

#include <chrono>
#include <exception>
#include <functional>

#include <boost/intrusive/list.hpp>

#include "client/http1_stream.hpp"
#include "client/http2_stream.hpp"
#include "client/metrics.hpp"
#include "client/stream.hpp"
#include "client/stream_base.hpp"
#include "config/config.hpp"
#include "net/connection.hpp"
#include "net/deadline.hpp"
#include "net/task.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"

namespace tidegate::client {

// A worker handles a connection through this interface, whichever protocol it speaks. The worker's
// list has it while it lives. One thread.
class ServedConnection : public boost::intrusive::list_base_hook<
                             boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    virtual ~ServedConnection() = default;

    // The worker drains: an idle connection closes, a busy one once it has answered. A tunnel
    // learns of it, and ends when its turn comes.
    virtual void on_drain() = 0;
    // Resets the connection, whatever it is doing.
    virtual void cut_off() = 0;
    // The time to drain has ended. The connection breaks off its requests and what waits for one,
    // or its tunnels, and returns whether it had any.
    virtual bool cut_requests() = 0;
    virtual bool cut_tunnels() = 0;

    virtual const identity::Peer& peer() const = 0;
    // Whether the worker may cut it off in favour of another client: it serves no request.
    virtual bool is_evictable() const = 0;
};

using ServedConnectionList =
    boost::intrusive::list<ServedConnection, boost::intrusive::constant_time_size<false>>;

// Holds what the connections of a worker's clients share, whichever protocol they speak. Outlives
// them; one thread.
struct ConnectionContext {
    // Serves one request: answers it through the stream, or breaks it off. A head that is not
    // complete comes here too, to be answered and logged; then the connection closes, or the
    // stream.
    using Serve = Task<> (*)(void* server, Stream& stream);

    Executor executor;
    DeadlineWheel& deadlines;
    BufferPool& buffers;
    Metrics& metrics;
    ServedConnectionList& connections;  // each adds itself
    Http2Resources& http2;
    Serve serve;
    void* server;
    // Called when an exception has ended a request and its connection goes on.
    std::function<void(const std::exception_ptr&)> tell_failure{};
    const config::Config* config = nullptr;  // in force; a reload replaces it
    bool is_draining = false;                // answers say `Connection: close`
    // While draining: for how long an idle connection may still bring a request, which its client
    // may have sent already.
    std::chrono::milliseconds idle_patience{0};
    Http1StreamPool streams{};
};

// Closes a client's connection without destroying what it was sent last. One thread.
//
// RFC 9112 section 9.6: a close with bytes unread resets the connection and may destroy the last
// answer. So the connection sends its end, within `patience` where there is no room for it, then
// reads over what still comes, for a while. The caller closes it afterwards. The coroutine ends
// soon after `is_cut_off` has become true and the caller has woken `sleeper`.
Task<> linger(Connection& connection, Sleeper& sleeper, BufferPool& buffers,
              std::chrono::milliseconds patience, const bool& is_cut_off);

}  // namespace tidegate::client

// One client connection in HTTP/1: waits for input, reads a head, lends a stream to the callback
// that serves requests, and then goes on or closes. Knows nothing of what a request is for.
//
// Owned by its coroutine. One thread.
#pragma once

#include <cstdint>
#include <memory>

#include <boost/intrusive/list.hpp>

#include "client/http1_stream.hpp"
#include "client/stream_pool.hpp"
#include "config/config.hpp"
#include "net/task.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::client {

// What the connections of a worker share. Outlives them.
struct ConnectionContext {
    // Serves one request: answers it through the stream, or breaks it off. A head that is not
    // complete comes here too, to be answered and logged; then the connection closes.
    using Serve = Task<> (*)(void* server, Http1Stream& stream);

    Executor executor;
    DeadlineWheel& deadlines;
    BufferPool& buffers;
    telemetry::MetricsShard& metrics;
    Serve serve;
    void* server;
    const config::Config* config = nullptr;  // in force; a reload replaces it
    bool is_draining = false;                // answers say `Connection: close`
    Http1StreamPool streams{};
};

class Http1Connection : public boost::intrusive::list_base_hook<
                            boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    Http1Connection(ConnectionContext& context, ConnectionPtr connection,
                    const identity::Peer& peer, std::uint16_t local_port);
    ~Http1Connection();

    // Ends when the connection is closed.
    static Task<> run(std::unique_ptr<Http1Connection> self);

    // The worker drains: an idle connection closes, a busy one after its answer.
    void on_drain();
    // Resets the connection, whatever it is doing.
    void cut_off();

    const identity::Peer& peer() const { return link_.peer; }
    // It serves no request: it may be cut off in favour of another client's.
    bool is_evictable() const { return !is_serving_ && !link_.is_cut_off; }

  private:
    enum class Next : std::uint8_t { request, close, reset };

    Task<> await_input();
    Task<Next> read_head();
    Next what_follows() const;
    Task<bool> discard_body();
    Task<> linger();

    Connection& connection() { return link_.input.connection(); }

    ConnectionContext& context_;
    Http1Link link_;
    std::unique_ptr<Http1Stream> stream_;  // while there is a request
    bool is_idle_ = false;
    bool is_fresh_ = true;  // has not had its first request
    bool is_serving_ = false;
};

using Http1ConnectionList =
    boost::intrusive::list<Http1Connection, boost::intrusive::constant_time_size<false>>;

}  // namespace tidegate::client

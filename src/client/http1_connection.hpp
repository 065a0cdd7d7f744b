// One client connection in HTTP/1: waits for input, reads a head, lends a stream to the callback
// that serves requests, and then goes on or closes. Knows nothing of what a request is for.
//
// Owned by its coroutine. One thread.
#pragma once

#include <cstdint>
#include <memory>

#include "client/connection.hpp"
#include "client/http1_stream.hpp"
#include "net/task.hpp"

namespace tidegate::client {

class Http2Connection;

class Http1Connection final : public ServedConnection {
  public:
    Http1Connection(ConnectionContext& context, ConnectionPtr connection, const Arrival& arrival);
    ~Http1Connection() override;

    // Ends when the connection is closed.
    static Task<> run(std::unique_ptr<Http1Connection> self);

    void on_drain() override;
    void cut_off() override;
    const identity::Peer& peer() const override { return link_.arrival.peer; }
    bool cut_requests() override { return cut_off_if(!link_.is_tunnel); }
    bool cut_tunnels() override { return cut_off_if(link_.is_tunnel); }
    bool is_evictable() const override { return !is_serving_ && !link_.is_cut_off; }

  private:
    enum class Next : std::uint8_t {
        request,
        idle,   // what came was of TLS itself
        http2,  // that is what the client speaks
        ended,  // by the client, between two requests: every answer was sent
        close,
        reset,
    };

    bool cut_off_if(bool is_meant);
    // Returns for how long an idle connection may still bring a request.
    std::chrono::milliseconds idle_patience() const;
    Task<> await_input();
    Task<Next> read_head();
    bool takes_http1() const;
    bool has_begun_http2() const;
    std::unique_ptr<Http2Connection> hand_over();
    bool was_woken_by_tls() const;
    // Whether the peer has begun as a balancer does, and the listener is not for one.
    void tell_unexpected_header() const;
    Next what_follows() const;
    Task<bool> discard_body();

    Connection& connection() { return link_.input.connection(); }

    ConnectionContext& context_;
    Http1Link link_;
    std::unique_ptr<Http1Stream> stream_;  // while there is a request
    bool is_idle_ = false;
    bool is_fresh_ = true;  // has not had its first request
    bool is_serving_ = false;
};
}  // namespace tidegate::client

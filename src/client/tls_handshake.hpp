// A connection whose TLS handshake is under way.
//
// The handshake looks at the client's first bytes before anything is made for TLS: a client that is
// silent holds no more than a descriptor, and one that speaks HTTP in the clear can be answered so.
// Owned by its coroutine, one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <boost/intrusive/list.hpp>

#include "client/arrival.hpp"
#include "client/connection_limit.hpp"
#include "client/handshake_fault.hpp"
#include "client/handshake_shares.hpp"
#include "client/handshake_turns.hpp"
#include "net/connection.hpp"
#include "net/task.hpp"
#include "net/wakeup.hpp"
#include "tls/tls_server.hpp"

namespace tidegate::client {

class TlsHandshake : public boost::intrusive::list_base_hook<
                         boost::intrusive::link_mode<boost::intrusive::auto_unlink>>,
                     private HandshakeShares::Place {
  public:
    // What the handshakes of a listener share. Outlives them.
    struct Context {
        Executor executor;
        DeadlineWheel& deadlines;
        HandshakeTurns& turns;
        HandshakeShares& shares;
        // In force when the first bytes come: a reload replaces it. Not null.
        const std::unique_ptr<TlsServer>& server;
    };

    using MaybeUnfinished = std::optional<ConnectionLimit::Unfinished>;

    // What is known without the handshake.
    struct Client {
        Arrival arrival{};
        std::optional<IpAddress> sender{};   // of the bytes: the client, or the balancer before it
        std::optional<IpAddress> counted{};  // counted_address()
        MaybeUnfinished unfinished{};
    };
    TlsHandshake(const Context& context, ConnectionPtr connection, Client client);

    enum class End : std::uint8_t {
        complete,    // the connection speaks TLS; arrival() has the client
        plain_http,  // the client's request is there to be read, in the clear
        failed,      // fault() says why
        timeout,
        evicted,
        left,  // the client closed before it sent anything, or the proxy is stopping
    };
    // Throws std::bad_alloc when OpenSSL has no memory.
    Task<End> run(std::chrono::milliseconds patience);

    const Arrival& arrival() const { return client_.arrival; }
    const std::optional<IpAddress>& sender() const { return client_.sender; }
    bool is_resumed() const { return is_resumed_; }
    const HandshakeFault& fault() const { return fault_; }
    ConnectionPtr take_connection() { return std::move(connection_); }

    // The worker drains: what is on its way may still come, for a moment.
    void on_drain();
    // Resets the connection.
    void cut_off();
    // Resets the connection of a handshake that `shares` gives up for a client of `address` (see
    // HandshakeShares), whose connection counts from now on as what this returns. Nothing: there
    // is none.
    static MaybeUnfinished evict_for(const std::optional<IpAddress>& address,
                                     HandshakeShares& shares);

  private:
    // One step; nothing: it did not end the handshake.
    std::optional<End> step();
    // Begins TLS if the first bytes are of it; nothing: they are, or have not come.
    std::optional<End> look();
    void note_client();

    const std::unique_ptr<TlsServer>& server_;
    HandshakeTurns& turns_;
    Sleeper sleeper_;
    HandshakeTurns::Place place_;
    ConnectionPtr connection_;
    Client client_;
    HandshakeFault fault_;
    bool is_resumed_ = false;
    bool is_stopping_ = false;
    bool is_cut_off_ = false;
    bool is_evicted_ = false;
};

using TlsHandshakeList =
    boost::intrusive::list<TlsHandshake, boost::intrusive::constant_time_size<false>>;

}  // namespace tidegate::client

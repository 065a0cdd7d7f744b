// TLS handshakes with clients: one that is under way, why one failed, and how those of a worker
// share its time and its room.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include "base/ip.hpp"
#include "client/connection_limit.hpp"
#include "client/metrics.hpp"
#include "client/stream_base.hpp"
#include "net/connection.hpp"
#include "net/task.hpp"
#include "net/wakeup.hpp"
#include "tls/channel.hpp"
#include "tls/tls_server.hpp"

namespace tidegate::client {

// Why a TLS handshake with a client failed, for metrics and in words for an operator. Any thread.
struct HandshakeFault {
    TlsHandshakeFailure reason = TlsHandshakeFailure::other;
    std::string message;  // ends a sentence about the client
};

// Explains a handshake that failed or was cut off.
HandshakeFault handshake_fault(const TlsChannel& channel);

// Counts the unfinished TLS handshakes of each address. When there is no room for another one, the
// address that has most gives up its oldest in favour of an address that has fewer.
//
// So one address cannot keep all others out by handshakes that it only begins. Costs a look into a
// table for a handshake that begins or ends. Owned by a worker, one thread.
class HandshakeShares {
    class Share;
    using PlaceHook = boost::intrusive::list_base_hook<boost::intrusive::tag<Share>>;

  public:
    // Counts one handshake for as long as it lives.
    class Place : public PlaceHook {
      public:
        // `address` is that of counted_address(); nothing: the handshake is never given up.
        // `shares` outlives this.
        Place(HandshakeShares& shares, const std::optional<IpAddress>& address);
        ~Place() { leave(); }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;

        // Counts the handshake no more.
        void leave();

      private:
        friend class HandshakeShares;
        HandshakeShares& shares_;
        Share* share_ = nullptr;  // null: it does not count
    };

    HandshakeShares() : shares_(0, AddressHash::with_secret()) {}

    // Returns the handshake to give up for a client of `address` (nothing: of none that counts):
    // the oldest of the address that has most. Null if that address has at most one more than the
    // client's, as the two would give way to each other by turns.
    Place* find_for(const std::optional<IpAddress>& address);

    // How many addresses have a handshake.
    std::size_t addresses() const { return shares_.size(); }

  private:
    // The handshakes of one address, at least one, the oldest first.
    class Share : public boost::intrusive::set_base_hook<> {
      public:
        explicit Share(const IpAddress& its) : address(its) {}
        bool operator<(const Share& other) const { return count < other.count; }

        const IpAddress address;
        std::size_t count = 0;
        boost::intrusive::list<Place, boost::intrusive::base_hook<PlaceHook>,
                               boost::intrusive::constant_time_size<false>>
            places;
    };
    using ByCount = boost::intrusive::multiset<Share, boost::intrusive::constant_time_size<false>>;

    // Adds `by` to its count.
    void recount(Share& share, int by);

    std::unordered_map<IpAddress, Share, AddressHash> shares_;
    ByCount by_count_;  // of shares_
};

// Bounds the steps of TLS handshakes that a turn of the event loop takes: a step costs hundreds of
// microseconds, so a flood of new clients would keep those that are connected waiting.
//
// A handshake that is ready asks before each step. A step that a turn does not admit waits in a
// queue, first in, first out, and goes on at the end of one of the next turns. In between, the
// worker serves the other connections. Owned by a worker, one thread.
class HandshakeTurns final : private Turn::Duty {
  public:
    static constexpr int kStepsATurn = 8;

    // The place in the queue of one handshake, which sleeps on `wakeup`.
    class Place : public boost::intrusive::list_base_hook<
                      boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
      public:
        explicit Place(Wakeup& wakeup) : wakeup_(wakeup) {}

      private:
        friend class HandshakeTurns;
        Wakeup& wakeup_;
        bool is_called_ = false;  // its next step is admitted
    };

    explicit HandshakeTurns(const Executor& executor) : turn_(Turn::of(executor)) {}

    // True: a step may be made, now. False: `place` is in the queue, and is woken when its step is
    // admitted. A handshake that is woken asks again.
    bool may_step(Place& place);

  private:
    using Queue = boost::intrusive::list<Place, boost::intrusive::constant_time_size<false>>;

    void end_of_turn() noexcept override;

    Turn& turn_;
    Queue queue_;
    int left_ = kStepsATurn;  // of this turn
};

// A connection whose TLS handshake is under way.
//
// The handshake looks at the client's first bytes before anything is made for TLS: a client that is
// silent holds no more than a descriptor, and one that speaks HTTP in the clear can be answered so.
// Owned by its coroutine, one thread.
class TlsHandshake : public boost::intrusive::list_base_hook<
                         boost::intrusive::link_mode<boost::intrusive::auto_unlink>>,
                     private HandshakeShares::Place {
  public:
    // The handshakes of a listener share a context, which outlives them.
    struct Context {
        Executor executor;
        DeadlineWheel& deadlines;
        HandshakeTurns& turns;
        HandshakeShares& shares;
        // The one in force when the first bytes come, as a reload replaces it. Not null.
        const std::unique_ptr<TlsServer>& server;
    };

    using MaybeUnfinished = std::optional<ConnectionLimit::Unfinished>;

    // The worker knows this of a client without the handshake.
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
    // Takes one step, and returns the end of the handshake if the step has ended it.
    std::optional<End> step();
    // Begins TLS if the first bytes are of it, and returns nothing; nor does it if they have not
    // come.
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

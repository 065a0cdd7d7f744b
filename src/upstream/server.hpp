// One server of an upstream as one worker has it, and how the worker chooses among servers. Part of
// a pool; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "balance/choice.hpp"
#include "base/described_enum.hpp"
#include "config/config.hpp"
#include "net/connection.hpp"
#include "net/deadline.hpp"
#include "net/wakeup.hpp"
#include "tls/openssl.hpp"
#include "upstream/group.hpp"
#include "upstream/http2_connection.hpp"

namespace tidegate::upstream {

// Why a request has no connection to its server.
BOOST_DEFINE_FIXED_ENUM_CLASS(ConnectFault, std::uint8_t, none, unreachable, refused, timeout, tls,
                              no_http2, client_left)

// A connection in HTTP/2 that one request makes, and that others wait for: many requests at once
// must not make a connection each. One thread.

// The list of its attempt has it while it waits.
struct Http2Waiter
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    explicit Http2Waiter(Wakeup& of_request) : wakeup(of_request) {}

    Wakeup& wakeup;
};

struct Http2Attempt : boost::intrusive_ref_counter<Http2Attempt, boost::thread_unsafe_counter> {
    // Wakes all requests that wait.
    void end(ConnectFault with) {
        outcome = with;
        for (Http2Waiter& waiter : waiters) waiter.wakeup.wake_later();
    }

    boost::intrusive::list<Http2Waiter, boost::intrusive::constant_time_size<false>> waiters;
    std::size_t requests = 1;             // that count on it, with the one that makes it
    std::optional<ConnectFault> outcome;  // client_left: another request has to try
};

using Http2AttemptPtr = boost::intrusive_ptr<Http2Attempt>;

// One server of an upstream as one worker has it: its idle connections, and the worker's counts.
// Part of a pool; one thread. Does no I/O but closing.
//
// Requests hold servers, so that a server whose address is gone lasts until its last request has
// ended.
class Server
    : public boost::intrusive_ref_counter<Server, boost::sp_adl_block::thread_unsafe_counter> {
  public:
    Server(std::shared_ptr<SharedServer> shared, std::size_t worker)
        : shared_(std::move(shared)), counts_(shared_->counts[worker]) {}

    SharedServer& shared() const { return *shared_; }
    const std::shared_ptr<SharedServer>& shared_ptr() const { return shared_; }
    const std::string& name() const { return shared_->name; }
    const std::string& address() const { return shared_->address; }
    const std::string& authority() const { return shared_->authority; }

    // Counts a request for which this server was chosen, and which may still have to wait for a
    // connection. Each request that begins ends once. `is_counted`: the balance depends on requests
    // in flight.
    void begin_request(bool is_counted) {
        counts_.requests.add();
        if (is_counted) shared_->state.begin_request();
    }
    void end_request(bool is_counted) {
        counts_.ended.add();
        if (is_counted) shared_->state.end_request();
    }
    void count_failure() { counts_.failures.add(); }

    // Keeps a session of TLS that the server gave, for the next connection to it. At most one is
    // kept.
    void remember(TlsSessionPtr session) {
        if (session) session_ = std::move(session);
    }
    TlsSessionPtr take_session() { return std::move(session_); }

    // Notes that the pool no longer has this server: a connection that is given back is closed.
    void retire() { is_retired_ = true; }
    bool is_retired() const { return is_retired_; }

    struct Idle {
        ConnectionPtr connection;
        SteadyTime since;
    };
    std::size_t idle_count() const { return idle_.size(); }
    void add_idle(ConnectionPtr connection, SteadyTime now) {
        idle_.push_back({std::move(connection), now});
    }
    // Takes the one that was used last: it is the least likely to be stale. Requires an idle
    // connection.
    ConnectionPtr take_idle();
    // Requires an idle connection.
    SteadyTime oldest_idle_since() const { return idle_.front().since; }
    ConnectionPtr take_oldest_idle();
    // Lets go of each Idle for which `is_over` holds.
    template <class IsOver>
    void erase_idle_if(IsOver is_over) {
        std::erase_if(idle_, is_over);
    }

    // Connections in HTTP/2, whether requests use them or not, in the order in which they were
    // made; and those that are being made.
    std::vector<Http2ConnectionPtr>& http2() { return http2_; }
    std::vector<Http2AttemptPtr>& attempts() { return attempts_; }
    bool speaks_http2() const { return shared_->is_http2; }
    // The first connection that takes one more request; null if none does. `is_fresh`: only those
    // on which the server has not answered yet.
    Http2ConnectionPtr find_http2(bool is_fresh = false) const;
    // How many streams a connection takes, as the server said last; 0: it has said nothing.
    std::uint32_t streams_said() const;
    // How large heads and trailers may be, as the server said last; UINT32_MAX: any, or it has said
    // nothing.
    std::uint32_t list_bytes_said() const;
    // Drops a connection that is over.
    void forget(const Http2Connection& connection);

  private:
    std::shared_ptr<SharedServer> shared_;
    SharedServer::Counts& counts_;
    std::vector<Idle> idle_;  // in the order in which they became so
    TlsSessionPtr session_;
    std::vector<Http2ConnectionPtr> http2_;
    std::vector<Http2AttemptPtr> attempts_;
    std::uint32_t streams_said_ = 0;
    std::uint32_t list_bytes_said_ = UINT32_MAX;
    bool is_retired_ = false;
};

using ServerPtr = boost::intrusive_ptr<Server>;

// Chooses a server as the upstream's `balance` says. Part of a pool; one thread.
class Chooser {
  public:
    // The number of the worker makes the workers begin with different servers.
    Chooser(const config::Upstream& settings, std::size_t worker);

    void reset(const std::vector<ServerPtr>& servers);
    // A place in the list; none: no server may be chosen. `key` is a hash of the request's key, and
    // none if the request has no value of it: then round robin chooses. The request has `tried`
    // servers already.
    balance::Chosen choose(std::optional<std::uint64_t> key, SteadyTime now,
                           const balance::Tried& tried);

  private:
    balance::RoundRobin round_robin_;
    std::optional<balance::LeastConnections> least_connections_;
    std::optional<balance::Hash> hash_;
    std::vector<balance::ServerState*> states_;
};

}  // namespace tidegate::upstream

// Connections that are not served: those that wait for their PROXY header, those that the proxy
// refuses, and what it says of those that it closes before they can speak HTTP.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/intrusive/list.hpp>

#include "base/ip.hpp"
#include "client/metrics.hpp"
#include "client/stream_base.hpp"
#include "net/connection.hpp"
#include "net/deadline.hpp"
#include "net/descriptor.hpp"
#include "net/task.hpp"
#include "net/wakeup.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::client {

// A connection whose PROXY header is still on its way. Nothing of the client is read before it.
//
// The wait peeks, and takes only the header off the socket: the bytes behind it stay for the
// handshake or the request. Holds no buffer. Owned by its coroutine, one thread.
class ProxyHeaderWait : public boost::intrusive::list_base_hook<
                            boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    // `arrival` says what is known without the header.
    ProxyHeaderWait(Executor executor, DeadlineWheel& deadlines, ConnectionPtr connection,
                    const Arrival& arrival);

    enum class End : std::uint8_t {
        complete,   // arrival() is what the header says
        malformed,  // fault() says how
        timeout,
        left,  // the peer closed before it sent anything, or the proxy is stopping
    };
    Task<End> run(std::chrono::milliseconds patience);

    const Arrival& arrival() const { return arrival_; }
    // A clause that ends a sentence about the header, such as `is missing`.
    std::string_view fault() const { return fault_; }
    ConnectionPtr take_connection() { return std::move(connection_); }

    // The worker drains: what is on its way may still come, for a moment.
    void on_drain();
    // Resets the connection.
    void cut_off();

  private:
    // Returns how the wait ends, if what has arrived says so.
    std::optional<End> look();

    Sleeper sleeper_;
    ConnectionPtr connection_;
    Arrival arrival_;
    std::string_view fault_;
    bool is_stopping_ = false;
};

using ProxyHeaderWaitList =
    boost::intrusive::list<ProxyHeaderWait, boost::intrusive::constant_time_size<false>>;

// Closes connections that the proxy refuses, each by a few system calls, with an answer in the
// clear if the client can read that.
//
// A refused connection gets no coroutine and no buffer, and the proxy never waits for it. A close
// with bytes unread resets the connection and may destroy the answer, and the client's request is
// mostly still on its way: so the last connections are kept open for a moment, and the proxy throws
// away what they still send. Owned by a worker, one thread.

// A stream socket from `peer` that was just accepted, and what its answer says.
struct RefusedConnection {
    Descriptor descriptor;
    // The bound that is reached. Nothing: the client speaks HTTP in the clear where TLS is spoken,
    // which the caller counts.
    std::optional<ConnectionRefusal> reason;
    std::optional<IpAddress> peer;
    std::string_view request_id;  // of RefusedConnections::kIdBytes
    std::string_view date_line;   // `Date: ...\r\n`
    std::string_view more_lines;  // whole lines of the configuration
};

class RefusedConnections {
  public:
    // How many descriptors it keeps open at most, besides those of clients that are served.
    static constexpr std::size_t kKeptMax = 64;
    static constexpr std::size_t kIdBytes = 32;
    static constexpr std::chrono::milliseconds kKept{1'000};

    // `metrics` outlives this.
    explicit RefusedConnections(Metrics& metrics);
    RefusedConnections(const RefusedConnections&) = delete;
    RefusedConnections& operator=(const RefusedConnections&) = delete;

    // Takes over the descriptor, and answers. Logs one refusal a minute for each reason.
    void add(RefusedConnection refused, SteadyTime now);
    // The same without an answer: the client speaks TLS, and the two have agreed on nothing yet.
    void add_unanswered(ConnectionRefusal reason, Descriptor descriptor,
                        const std::optional<IpAddress>& peer, SteadyTime now);
    // Takes over the descriptor of a connection whose client has been sent all, and keeps it open
    // for a moment so that all arrives.
    void part_from(Descriptor descriptor, SteadyTime now);
    // Closes connections whose time is over or whose client has closed. Call it every tick.
    void sweep(SteadyTime now);
    // Frees the descriptors when the process needs them elsewhere.
    void close_all() { kept_.clear(); }

    std::size_t kept() const { return kept_.size(); }

  private:
    // Holds the text that all answers for one reason share. The id of the request is in the head
    // and in the body.
    struct Answer {
        // Without a reason: see RefusedConnection.
        explicit Answer(const std::optional<ConnectionRefusal>& reason);
        // Writes the whole answer to `text`.
        void write(const RefusedConnection& refused);

        std::string head;  // without its empty line
        std::string body;
        std::size_t id_in_head = 0;
        std::size_t id_in_body = 0;
        std::string text;
    };
    struct Kept {
        Descriptor descriptor;
        SteadyTime until;
    };

    // Counts and logs.
    void note(ConnectionRefusal reason, const std::optional<IpAddress>& peer, SteadyTime now);

    Metrics& metrics_;
    std::array<Answer, 4> answers_;                        // by reason; the last for none
    std::array<telemetry::LogInterval, 3> log_intervals_;  // by reason
    std::deque<Kept> kept_;                                // in the order of `until`
};

// Counts and logs connections that are closed before they can speak HTTP, for what is wrong with
// their PROXY header or their TLS handshake. Owned by a worker, one thread.
class UnservedConnections {
  public:
    // `metrics` outlives this.
    explicit UnservedConnections(Metrics& metrics) : metrics_(metrics) {}

    // The connection came from `peer`; nothing: over a Unix socket. `listener` is its address, and
    // `fault` ends a sentence about the header, if it is malformed, or about the client, if
    // `reason` says less. Logs one a minute for each reason.
    void add(ProxyHeaderRefusal reason, const std::optional<IpAddress>& peer,
             const std::string& listener, std::string_view fault, SteadyTime now);
    void add(TlsHandshakeFailure reason, const std::optional<IpAddress>& peer,
             const std::string& listener, std::string_view fault, SteadyTime now);

  private:
    Metrics& metrics_;
    std::array<telemetry::LogInterval, kEnumerators<ProxyHeaderRefusal>.size()> header_intervals_;
    std::array<telemetry::LogInterval, kEnumerators<TlsHandshakeFailure>.size()>
        handshake_intervals_;
};

}  // namespace tidegate::client

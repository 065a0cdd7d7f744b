// Connections that the proxy refuses: each is closed for a few system calls, with an answer in the
// clear if the client can read that.
//
// A refused connection gets no coroutine and no buffer, and the proxy never waits for it. A close
// with bytes unread resets the connection and may destroy the answer, and the client's request is
// mostly still on its way: so the last connections are kept open for a moment, and the proxy throws
// away what they still send. Owned by a worker, one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/ip.hpp"
#include "client/metrics.hpp"
#include "net/deadline.hpp"
#include "net/descriptor.hpp"
#include "telemetry/log_interval.hpp"

namespace tidegate::client {

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
    // Descriptors kept open at most, besides those of clients that are served.
    static constexpr std::size_t kKeptMax = 64;
    static constexpr std::size_t kIdBytes = 32;
    static constexpr std::chrono::milliseconds kKept{1'000};

    // `metrics` outlives this.
    explicit RefusedConnections(Metrics& metrics);
    RefusedConnections(const RefusedConnections&) = delete;
    RefusedConnections& operator=(const RefusedConnections&) = delete;

    // Takes over the descriptor, and answers. Logs one refusal a minute for each reason.
    void add(RefusedConnection refused, SteadyTime now);
    // The same without an answer: the client speaks TLS, and nothing is agreed on yet.
    void add_unanswered(ConnectionRefusal reason, Descriptor descriptor,
                        const std::optional<IpAddress>& peer, SteadyTime now);
    // Takes over the descriptor of a connection to which all was sent, and sees that it arrives.
    void part_from(Descriptor descriptor, SteadyTime now);
    // Closes connections whose time is over or whose client has closed. Call it every tick.
    void sweep(SteadyTime now);
    // For when the process needs descriptors elsewhere.
    void close_all() { kept_.clear(); }

    std::size_t kept() const { return kept_.size(); }

  private:
    // What all answers for one reason share. The id of the request is in the head and in the body.
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

}  // namespace tidegate::client

// Clients for whom there is no room: told so and let go, at the price of a few system calls.
//
// They get no session, no coroutine and no buffer, and are never waited for. A close with bytes
// unread resets the connection, and their request is mostly still on its way: so as many
// connections as there are places for are kept a moment, and what still comes is thrown away.
// Owned by a worker, one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "base/ip.hpp"
#include "net/deadline.hpp"
#include "proxy/request_id.hpp"
#include "telemetry/log_interval.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::app {

class RefusedConnections {
  public:
    // Descriptors kept open at most, beyond those of clients that are served.
    static constexpr std::size_t kKeptMax = 64;
    static constexpr std::chrono::milliseconds kKept{1'000};

    // `request_ids` and `metrics` are those of the worker, and outlive this.
    RefusedConnections(proxy::RequestIds& request_ids, telemetry::MetricsShard& metrics);
    ~RefusedConnections() { close_all(); }
    RefusedConnections(const RefusedConnections&) = delete;
    RefusedConnections& operator=(const RefusedConnections&) = delete;

    // Takes over `descriptor`, a stream socket that was just accepted, from `peer`. The first of a
    // minute is logged, for each reason.
    void add(int descriptor, telemetry::ConnectionRefusal reason,
             const std::optional<IpAddress>& peer, SteadyTime now);
    // Closes whose time is over and who have closed. Call it every tick.
    void sweep(SteadyTime now);
    // Descriptors are needed elsewhere.
    void close_all();

    std::size_t kept() const { return kept_.size(); }

  private:
    // A whole answer, but for the request's id, which stands in head and body.
    struct Answer {
        explicit Answer(telemetry::ConnectionRefusal reason);
        void put_id(const std::string& id);

        std::string text;
        std::array<std::size_t, 2> id_at{};
    };
    struct Kept {
        int descriptor;
        SteadyTime until;
    };

    void say(telemetry::ConnectionRefusal reason, const std::optional<IpAddress>& peer,
             SteadyTime now);

    proxy::RequestIds& request_ids_;
    telemetry::MetricsShard& metrics_;
    std::array<Answer, 2> answers_;                        // by reason
    std::array<telemetry::LogInterval, 2> log_intervals_;  // by reason
    std::string id_;
    std::deque<Kept> kept_;  // the first one first
};

}  // namespace tidegate::app

// Keeps requests from servers that fail, by three rules:
//
// - Health checks. The first check decides at once; later, `unhealthy_after` failed or
//   `healthy_after` good checks in a row change the verdict. A verdict is a fact: an unhealthy
//   server gets no request, even if no other is left.
// - Ejection. `failures` requests in a row failed: the server is left out for a while. Each
//   ejection in a row lasts twice as long as the last, up to kEjectedMax; a server that has stayed
//   in for kEjectedMax, or that becomes healthy, begins anew; one that is cut short does not make
//   the next one longer. An ejection is a preference: it ends by itself, at most
//   `at_most` percent of the servers are ejected (one of two or more always may be), a lone server
//   never is, and where no server is usable the ejected ones are.
// - Avoidance. A connection to a server failed: others are tried before it, for kAvoided. One of
//   several addresses of a name is avoided for longer each time it fails again, up to kAvoidedMax,
//   until a request to it succeeds or its check finds it healthy again.
//
// Any thread. A call that changes nothing takes no lock: a request that succeeds after others that
// succeeded costs one load. No I/O and no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "balance/server_state.hpp"
#include "base/described_enum.hpp"

namespace tidegate::balance {

inline constexpr std::chrono::minutes kEjectedMax{5};

struct EjectSettings {
    int failures = 5;
    std::chrono::nanoseconds duration = std::chrono::seconds{10};  // of the first ejection
    int at_most = 50;                                              // percent of the servers
};

struct HealthSettings {
    int unhealthy_after = 3;
    int healthy_after = 2;
    std::optional<EjectSettings> eject{};
};

// How a request failed. A status is no failure: applications mean a 500.
BOOST_DEFINE_FIXED_ENUM_CLASS(ServerFailure, std::uint8_t,
                              connect,  // no connection in time
                              timeout,  // no answer in time
                              broken)   // an answer that is none, or that was cut off

// Tells the log and the counters what a call changed.
struct HealthChange {
    enum class Kind : std::uint8_t { none, ejected, became_healthy, became_unhealthy };
    Kind kind = Kind::none;                   // of the server that the call was about
    std::chrono::nanoseconds ejected_for{0};  // if ejected
    // Other servers whose ejections ended early. Valid as long as Health has them.
    std::vector<ServerState*> returned{};
};

class Health {
  public:
    using Servers = std::vector<std::shared_ptr<ServerState>>;

    explicit Health(const HealthSettings& settings) : settings_(settings) {}

    // From now on the upstream has these servers. Servers that it had before and that are not among
    // them drain. New servers begin in slow start, except those of the first call. A server that
    // comes back may be the same object. Returns servers whose ejections ended early, because more
    // were ejected than `at_most` allows of the new list.
    std::vector<ServerState*> use(Servers servers, SteadyTime now);

    // A request to `server` was answered.
    // True: requests before it had failed.
    bool note_success(ServerState& server) {
        if (server.failures_.load(std::memory_order_relaxed) == 0) return false;
        return forget_failures(server);
    }
    // A request to `server` failed. Failures while it is ejected do not count: those requests began
    // before, or no better server was left.
    HealthChange note_failure(ServerState& server, ServerFailure failure, SteadyTime now);

    // Checks of one server come one after the other. A good first check is no change: a server
    // whose verdict is unknown is usable.
    HealthChange note_check(ServerState& server, bool good, SteadyTime now);

  private:
    static bool forget_failures(ServerState& server);
    static void avoid(ServerState& server, SteadyTime now);
    static void end_avoidance(ServerState& server);
    // These require the mutex.
    HealthChange eject(ServerState& server, SteadyTime now);
    std::size_t ejections_max() const;
    std::vector<ServerState*> return_surplus(SteadyTime now);
    std::chrono::nanoseconds next_duration(ServerState& server, SteadyTime now) const;

    const HealthSettings settings_;
    std::mutex mutex_;
    Servers servers_;              // without those that drain
    std::uint64_t ejections_ = 0;  // in all
};

}  // namespace tidegate::balance

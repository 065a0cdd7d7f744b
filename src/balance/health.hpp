// The state of the servers of an upstream, and Health, which keeps requests from servers that fail,
// by three rules:
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

#include <atomic>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/described_enum.hpp"
#include "base/timestamp.hpp"

namespace tidegate::balance {

inline constexpr int kWeightMax = 1'000;
inline constexpr int kFullShare = 1'000;  // shares are in thousandths of a weight
// Slow start begins at this share.
inline constexpr int kFirstShare = kFullShare / 10;
// For so long after a connection failed, other servers are tried before this one.
inline constexpr std::chrono::seconds kAvoided{1};
// If a name has several addresses, the proxy avoids one that fails again and again for twice as
// long each time, up to this: there may be no server at all.
inline constexpr std::chrono::seconds kAvoidedMax{30};

// Holds the result of a server's health checks.
enum class CheckVerdict : std::uint8_t { unknown, healthy, unhealthy };

// In which order servers are chosen: a server of one rank only if there is none of a lower rank.
enum class Rank : std::uint8_t {
    usable,
    avoided,  // a connection failed lately
    ejected,  // an ejection is a preference: better an ejected server than none
    ejected_avoided,
    out,  // unhealthy or draining: never chosen
};

// The state of one server of an upstream, for all threads: its requests in flight, and whether it
// may be chosen.
//
// Any thread reads and counts without a lock. Health decides what is written about the server's
// health; a server belongs to one Health for as long as it lives.
class alignas(64) ServerState {
  public:
    // `id` stays the same for an address, in every process: hashes choose by it. `weight`:
    // 1 .. kWeightMax.
    ServerState(std::uint64_t id, int weight)
        : id_(id), weight_(static_cast<std::uint32_t>(weight)) {
        assert(weight >= 1 && weight <= kWeightMax);
    }
    ServerState(const ServerState&) = delete;
    ServerState& operator=(const ServerState&) = delete;

    std::uint64_t id() const { return id_; }

    // Each begun request ends once, whatever becomes of it.
    void begin_request() { active_.fetch_add(1, std::memory_order_relaxed); }
    void end_request() { active_.fetch_sub(1, std::memory_order_relaxed); }
    std::uint32_t active() const { return active_.load(std::memory_order_relaxed); }

    std::uint32_t weight() const { return weight_.load(std::memory_order_relaxed); }
    void set_weight(int weight) {
        assert(weight >= 1 && weight <= kWeightMax);
        weight_.store(static_cast<std::uint32_t>(weight), std::memory_order_relaxed);
    }

    // Whether its name has led to several addresses.
    bool shares_name() const { return shares_name_.load(std::memory_order_relaxed); }
    void set_shares_name(bool shares) { shares_name_.store(shares, std::memory_order_relaxed); }

    CheckVerdict verdict() const { return verdict_.load(std::memory_order_relaxed); }
    // The address is gone from DNS: requests in flight go on, no new ones come.
    bool is_draining() const { return draining_.load(std::memory_order_relaxed); }
    bool is_ejected(SteadyTime now) const { return is_after(ejected_until_, now); }
    bool is_avoided(SteadyTime now) const { return is_after(avoid_until_, now); }
    // How many requests in a row have failed.
    std::uint32_t failures() const { return failures_.load(std::memory_order_relaxed); }

    Rank rank(SteadyTime now) const {
        if (verdict() == CheckVerdict::unhealthy || is_draining()) return Rank::out;
        if (is_ejected(now)) return is_avoided(now) ? Rank::ejected_avoided : Rank::ejected;
        return is_avoided(now) ? Rank::avoided : Rank::usable;
    }

    // How many thousandths of its weight count: 0 if the server may not be chosen, else as
    // share_in_slow_start().
    int share(SteadyTime now, std::chrono::nanoseconds slow_start) const {
        return rank(now) <= Rank::avoided ? share_in_slow_start(now, slow_start) : 0;
    }
    // kFirstShare .. kFullShare, growing evenly over the `slow_start` after the server came back.
    // A `slow_start` of 0: there is none.
    int share_in_slow_start(SteadyTime now, std::chrono::nanoseconds slow_start) const {
        const SteadyTime since = get(slow_since_);
        if (since == SteadyTime{} || now - since >= slow_start) return kFullShare;
        if (now <= since) return kFirstShare;
        const auto grown = (kFullShare - kFirstShare) * (now - since) / slow_start;
        return kFirstShare + static_cast<int>(grown);
    }

  private:
    friend class Health;
    using Moment = std::atomic<std::chrono::steady_clock::rep>;  // 0: none

    static bool is_after(const Moment& moment, SteadyTime now) {
        return moment.load(std::memory_order_relaxed) > now.time_since_epoch().count();
    }
    static void set(Moment& moment, SteadyTime time) {
        moment.store(time.time_since_epoch().count(), std::memory_order_relaxed);
    }
    static SteadyTime get(const Moment& moment) {
        return SteadyTime(SteadyTime::duration(moment.load(std::memory_order_relaxed)));
    }

    // Every request writes here and reads the other members, so they have another cache line.
    std::atomic<std::uint32_t> active_{0};

    alignas(64) const std::uint64_t id_;
    Moment ejected_until_{0};
    Moment avoid_until_{0};
    Moment slow_since_{0};  // may be ahead: when the ejection ends
    std::atomic<std::uint32_t> failures_{0};
    std::atomic<std::uint32_t> weight_;
    std::atomic<std::uint32_t> contradictions_{0};  // checks in a row against the verdict
    std::atomic<CheckVerdict> verdict_{CheckVerdict::unknown};
    std::atomic<bool> draining_{false};
    std::atomic<bool> shares_name_{false};
    std::atomic<std::uint8_t> avoidances_{0};  // in a row
    // The mutex of its Health guards these two.
    std::uint32_t ejections_ = 0;  // in a row
    // A number among all ejections of the upstream: the server with the lowest is out longest.
    std::uint64_t ejection_order_ = 0;
};

static_assert(sizeof(ServerState) == 128);

// Returns the sum of the requests in flight to `servers`.
inline std::size_t count_active(std::span<ServerState* const> servers) {
    std::size_t sum = 0;
    for (const ServerState* server : servers) sum += server->active();
    return sum;
}

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

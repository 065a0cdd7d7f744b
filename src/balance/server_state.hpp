// The state of one server of an upstream, for all threads: its requests in flight, and whether it
// may be chosen.
//
// Any thread reads and counts without a lock. Health (balance/health.hpp) decides what is written
// about the server's health; a server belongs to one Health for as long as it lives.
#pragma once

#include <atomic>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

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

}  // namespace tidegate::balance

// Heartbeat tells Redis that this proxy is alive, and reads how many proxies are: that number
// divides the quotas of `local`, and the slack of leases.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/asio.hpp"
#include "net/wakeup.hpp"
#include "store/failure_policy.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

// The key of the sorted set of living proxies, each with the second of its last heartbeat, and its
// hash tag. A proxy that is silent for kHeartbeatGoodFor is gone.
inline constexpr std::string_view kHeartbeatTag = "replicas";
inline constexpr std::chrono::seconds kHeartbeatGoodFor{10};
std::string heartbeat_key(std::string_view key_prefix);

// Holds what the configuration says of the number of proxies, which holds before Redis is asked.
struct ReplicaSettings {
    int configured = 0;  // as many are there in any case; 0: not known
    int assumed = 1;     // holds while nothing else is known
};

// No more proxies are counted.
inline constexpr int kReplicasSeenMax = 1 << 20;

// How many proxies share a limit, from how many the heartbeats count. Pure.
//
// A larger count holds at once, a smaller one only after kHeartbeatGoodFor without a larger: a
// Redis that has lost its data counts a few until all proxies have sent a heartbeat again, and a
// share of too many is on the safe side.
class ReplicaCount {
  public:
    // `last_seen`: what a process before this one counted; 0: not known. It holds like a count of
    // this one.
    explicit ReplicaCount(const ReplicaSettings& settings, int last_seen = 0)
        : settings_(settings), counted_(last_seen) {}

    // Redis counts `seen`, this one included. Returns number().
    int update(std::int64_t seen, SteadyTime now);
    // A number that is no longer configured holds like one that was seen.
    void configure(const ReplicaSettings& settings);

    // The number that holds, at least 1: max(configured, counted), or what is assumed where neither
    // is known.
    int number() const;
    // Returns the number that Redis has counted; 0: it has not counted yet.
    int seen() const { return is_counted_ ? counted_ : 0; }
    // Whether anything is known but what is assumed.
    bool is_known() const { return counted_ > 0 || settings_.configured > 0; }

  private:
    ReplicaSettings settings_;
    int counted_;
    bool is_counted_ = false;  // by Redis, for this process
    SteadyTime counted_since_;
};

// The number of proxies, for all threads. The heartbeat writes it.
struct ReplicaFigures {
    Replicas number{0};  // for shares of `local`; may be assumed. 0: the heartbeat has not begun
    Replicas known{0};   // for leases: `number`, or 0 while that is only assumed
    Replicas seen{0};    // what Redis has counted; 0: nothing yet
};

// One a process, on the loop of the worker whose connection it uses. Each heartbeat removes the
// proxies that have been silent for too long. Plain commands, no script: so the server's statistics
// count one script call a decision and no other.
class Heartbeat : public std::enable_shared_from_this<Heartbeat> {
  public:
    struct Options {
        std::string name;  // of this process
        ReplicaSettings replicas{};
        int last_seen = 0;  // see ReplicaCount
    };

    // Writes `figures`, which outlive it.
    Heartbeat(Executor executor, RedisStore redis, Options options, ReplicaFigures& figures);
    ~Heartbeat();

    // Beats until stop().
    static Task<> run(std::shared_ptr<Heartbeat> self);
    void stop();
    // Another number is configured; holds at once.
    void configure(const ReplicaSettings& replicas);

  private:
    Task<> beat();
    // In seconds; 0 if Redis does not tell.
    Task<std::int64_t> time();
    void publish();

    RedisStore redis_;
    Options options_;
    ReplicaCount count_;
    ReplicaFigures& figures_;
    Wakeup wakeup_;
    Timer timer_;
    bool stopped_ = false;
};

}  // namespace tidegate::store

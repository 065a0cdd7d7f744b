// Tells Redis that this proxy is alive, and reads how many are: the quotas of `local` are divided
// by that number.
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

// How many proxies share a limit, from how many the heartbeats count. Pure.
//
// A larger count holds at once, a smaller one only after kHeartbeatGoodFor without a larger: a
// Redis that has lost its data counts a few until all proxies have sent a heartbeat again, and a
// share of too many is on the safe side.
class ReplicaCount {
  public:
    explicit ReplicaCount(int configured) : configured_(configured) {}

    // Redis counts `seen`, this one included. Returns the number that holds: max(`configured`,
    // counted).
    int update(std::int64_t seen, SteadyTime now);
    // Likewise.
    int configure(int configured);

  private:
    int configured_;
    int counted_ = 0;
    SteadyTime counted_since_;
};

// One a process, on the loop of the worker whose connection it uses. Each heartbeat removes the
// proxies that have been silent for too long. Plain commands, no script: so the server's statistics
// count one script call a decision and no other.
class Heartbeat : public std::enable_shared_from_this<Heartbeat> {
  public:
    struct Options {
        std::string name;    // of this process
        int configured = 0;  // replicas that are there in any case
    };

    // Writes `replicas`, which outlives it; see ReplicaCount.
    Heartbeat(Executor executor, RedisStore redis, Options options, Replicas& replicas);
    ~Heartbeat();

    // Beats until stop().
    static Task<> run(std::shared_ptr<Heartbeat> self);
    void stop();
    // Another number is configured; holds at once.
    void configure(int replicas);

  private:
    class Call;

    Task<> beat();
    // In seconds; 0 if Redis does not tell.
    Task<std::int64_t> time();

    RedisStore redis_;
    Options options_;
    ReplicaCount count_;
    Replicas& replicas_;
    Wakeup wakeup_;
    Timer timer_;
    bool stopped_ = false;
};

}  // namespace tidegate::store

// Tells Redis that this proxy is alive and learns how many are: what a local share is made from.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/asio.hpp"
#include "net/wakeup.hpp"
#include "redis/servers.hpp"
#include "store/limiter.hpp"

namespace tidegate::store {

// The sorted set of who is alive, with when each last spoke in seconds; its hash tag; and after how
// long a silence a proxy is gone.
inline constexpr std::string_view kHeartbeatTag = "replicas";
inline constexpr std::chrono::seconds kHeartbeatGoodFor{10};
std::string heartbeat_key(std::string_view key_prefix);

// How many proxies a limit is shared with, from what the heartbeats tell. Pure.
//
// More is believed at once, fewer only when nobody has told of more for as long as a word is good
// for: a Redis that has lost its data knows of a few until all have spoken again, and a share of
// too many is on the safe side.
class ReplicaCount {
  public:
    explicit ReplicaCount(int configured) : configured_(configured) {}

    // Redis told of `seen`, this one included. Returns max(`configured`, what is believed).
    int hear(std::int64_t seen, redis::SteadyTime now);
    // Returns max(`configured`, what is believed).
    int configure(int configured);

  private:
    int configured_;
    int believed_ = 0;
    redis::SteadyTime believed_since_;
};

// One a process, on the loop of the worker whose `servers` it uses.
//
// A sorted set holds when each proxy last spoke, in the server's seconds; whoever has been silent
// for too long is taken out by the next that speaks. Plain commands, no script: the server's
// statistics then count one script call a decision and no other.
class Heartbeat : public std::enable_shared_from_this<Heartbeat> {
  public:
    struct Options {
        std::string key_prefix;
        std::string name;          // this process's own
        bool local_clock = false;  // the server may refuse TIME: ours is used
        int configured = 0;        // replicas that are there in any case
    };

    // `replicas` becomes max(`configured`, how many were last seen alive); see ReplicaCount. It
    // outlives the heartbeat.
    Heartbeat(Executor executor, redis::Servers servers, Options options, Replicas& replicas);
    ~Heartbeat();

    // Beats until stop().
    static Task<> run(std::shared_ptr<Heartbeat> self);
    void stop();
    // Another number is configured; counts at once.
    void configure(int replicas);

  private:
    class Call;

    Task<> beat();
    // The server's time in seconds, or 0.
    Task<std::int64_t> server_time();

    redis::Servers servers_;
    Options options_;
    ReplicaCount count_;
    Replicas& replicas_;
    Wakeup wakeup_;
    Timer timer_;
    bool stopped_ = false;
};

}  // namespace tidegate::store

// A Redis as it is run in production, of a test's own: a master, replicas, and sentinels that watch
// them. Gone when the test is.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fault_proxy.hpp"
#include "redis_server.hpp"

namespace tidegate::test {

struct SentinelWorldShape {
    std::size_t replicas = 2;
    std::size_t sentinels = 3;
    std::string password;           // of the servers; empty: none
    std::string sentinel_password;  // of the sentinels; these then have to be one alone
    // All connections to a server, those of sentinels and replicas too, pass a network that a test
    // can break.
    bool fronted = false;
};

// Owns the processes. Not for use by several threads at once.
class SentinelWorld {
  public:
    inline static const std::string kMaster = "mymaster";

    // Returns when every sentinel knows of all others and of all replicas, and would fail over.
    // Throws std::runtime_error when that takes too long.
    explicit SentinelWorld(SentinelWorldShape shape = {});

    std::size_t sentinel_count() const { return sentinels_.size(); }
    RedisServer& server(std::size_t index) { return *servers_[index]; }
    RedisServer& sentinel(std::size_t index) { return *sentinels_[index]; }
    // Requires `fronted`. The network in front of a server.
    FaultProxy& network(std::size_t server) { return *networks_[server]; }

    // The server that sentinel `asked` takes for the master.
    std::size_t master(std::size_t asked = 0) const;
    // Waits until it is another than `old`; its index. Throws when that does not come.
    std::size_t next_master(std::size_t old, std::size_t asked = 0) const;
    // Waits until `server` says that it is a replica.
    void await_replica(std::size_t server) const;

    // For the configuration: `{master: mymaster, nodes: [...]}`; `more` goes into it.
    std::string yaml(const std::string& more = "") const;

  private:
    void start_servers();
    void put_networks();
    void start_sentinels();
    // The address at which clients reach a server.
    std::uint16_t port_of(std::size_t server) const;
    bool is_settled(const RedisServer& sentinel) const;
    // A command to a server or a sentinel, with the password that it wants; the reply as texts.
    std::vector<std::string> ask(const RedisServer& server, const std::string& password,
                                 const std::vector<std::string>& words) const;

    SentinelWorldShape shape_;
    std::vector<std::unique_ptr<RedisServer>> servers_;
    std::vector<std::unique_ptr<FaultProxy>> networks_;  // none: not fronted
    std::vector<std::unique_ptr<RedisServer>> sentinels_;
};

}  // namespace tidegate::test

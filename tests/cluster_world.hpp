// A Redis Cluster of a test's own, on free loopback ports, gone when the test is.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "redis_server.hpp"

namespace tidegate::test {

// Owns the servers. Not for use by several threads at once.
class ClusterWorld {
  public:
    struct Options {
        std::size_t masters = 3;
        bool replicas = false;  // one for each master
        std::chrono::milliseconds node_timeout{1'000};
    };

    // Starts the servers and makes a cluster of them, which serves all slots when this returns.
    // Slots without a node do not keep the others from being served. Throws std::runtime_error when
    // that takes too long.
    explicit ClusterWorld(const Options& options);
    ~ClusterWorld();
    ClusterWorld(const ClusterWorld&) = delete;
    ClusterWorld& operator=(const ClusterWorld&) = delete;

    // Masters first, then replicas, then those that were added.
    std::size_t size() const { return nodes_.size(); }
    RedisServer& node(std::size_t index) { return *nodes_.at(index); }
    const RedisServer& node(std::size_t index) const { return *nodes_.at(index); }

    // As `node` says.
    std::uint16_t slot_of(const std::string& key, std::size_t node = 0) const;
    // The slots of a node, in its own eyes.
    std::vector<std::uint16_t> slots_of(std::size_t node) const;

    // From a node that runs to another, key by key, as redis-cli --cluster reshard does; in the end
    // each master that runs learns of it. `before_key` is called before each key leaves.
    void move_slots(const std::vector<std::uint16_t>& slots, std::size_t from, std::size_t to,
                    const std::function<void()>& before_key = {});
    // The first and the last step of that. A move that ends where it began has not been.
    void begin_move(const std::vector<std::uint16_t>& slots, std::size_t from,
                    std::size_t to) const;
    void end_move(const std::vector<std::uint16_t>& slots, std::size_t from, std::size_t to) const;
    // A new master without slots, known to all.
    std::size_t add_master();
    // Stops a node that serves nothing, and has the others forget it.
    void remove(std::size_t node);

    // Until every node that runs says that all slots are served.
    void await_served() const;
    // On every node that runs.
    void command_all(const std::vector<std::string>& words) const;
    // The sum over all nodes that run.
    long calls(const std::string& command) const;
    // How many keys a node holds whose names are like `pattern`.
    std::size_t keys_like(std::size_t node, const std::string& pattern) const;
    // A configuration's list of nodes: `[redis://127.0.0.1:7000, ...]`.
    std::string urls() const;

  private:
    std::unique_ptr<RedisServer> start_node() const;
    std::string id_of(std::size_t node) const;
    std::string place_of(std::size_t node) const;
    bool is_master(std::size_t node) const;
    void set_slots(std::size_t node, const std::vector<std::uint16_t>& slots,
                   const std::string& state, const std::string& id) const;
    void create();

    Options options_;
    std::vector<std::unique_ptr<RedisServer>> nodes_;
};

}  // namespace tidegate::test

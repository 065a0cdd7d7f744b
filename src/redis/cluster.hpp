// A worker's Redis Cluster: a client for each master, and which of them serves which slot.
//
// The nodes' own list says both. It is read at the start, from any of the nodes that are
// configured; again when a command was sent to the wrong node, when a node is lost, for as long as
// one is missing, and once a minute: so nodes come and go without a restart. Until a slot's owner
// is known any node will do: it names the owner. A command that is another node's (MOVED, ASK) was
// not carried out and goes there, a few times at most and within the deadline it has; all else is
// as with a client. One thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/asio.hpp"
#include "net/wakeup.hpp"
#include "redis/client.hpp"
#include "redis/cluster_map.hpp"

namespace tidegate::redis {

// Commands in a row that went unanswered, for each node: the clients of all threads share them, so
// that a process with many threads notices a dead node as soon as one with one. Any thread.
class UnansweredByNode {
  public:
    std::shared_ptr<std::atomic<int>> of(const NodeAddress& node);

  private:
    std::mutex mutex_;
    std::map<std::string, std::weak_ptr<std::atomic<int>>> counts_;  // guarded by mutex_
};

struct ClusterOptions {
    std::vector<NodeAddress> seeds;  // at least one; any nodes of the cluster
    // Holds for each node; the cluster sets its address, `unanswered` and `in_cluster`.
    ClientOptions node;
    // All clusters made with copies of these options share it.
    std::shared_ptr<UnansweredByNode> unanswered = std::make_shared<UnansweredByNode>();

    ClientOptions client_of(const NodeAddress& address) const;
    std::string address() const;  // for messages
};

class Cluster final : public std::enable_shared_from_this<Cluster> {
  public:
    // Called at each change: up while every slot is served by a node that is up, else why not. From
    // the event loop.
    using OnState = Client::OnState;

    Cluster(Executor executor, ClusterOptions options, OnState on_state);
    ~Cluster();

    // Connects and stays connected until stop(). Spawn it once; it keeps `self` alive.
    static Task<> run(std::shared_ptr<Cluster> self);
    // Fails all requests that wait before it returns. Not from on_reply or on_failure.
    void stop();

    // Sends `request`, all of whose keys are in `slot` (below kSlots), or says why not. `request`
    // must live until one of its functions was called, within the timeout from `asked` on, or at
    // `needed_by` if that is earlier.
    std::optional<Failure> send(Request& request, std::uint16_t slot,
                                SteadyTime asked = std::chrono::steady_clock::now(),
                                SteadyTime needed_by = SteadyTime::max());
    // As Client::send_with_next(), for that slot.
    std::optional<Failure> send_with_next(Request& request, std::uint16_t slot);
    // Whether send() would say now that the slot's node is away.
    bool is_away(std::uint16_t slot) const;

    // Tries each seed in turn until a connection can be used; for start-up. Blocks for at most
    // `time`. Nothing when all went well.
    static std::optional<RedisConnectFault> try_once(const ClusterOptions& options,
                                                     milliseconds time);

    bool is_up() const { return !is_down_; }

  private:
    struct Node {
        NodeAddress address;
        std::string name;  // another way to write it
        std::shared_ptr<Client> client;
        std::string why_down;
    };
    struct Retired {
        std::shared_ptr<Client> client;
        SteadyTime until;
    };
    // Positions in nodes_; those of the others stay when one leaves.
    using Position = std::uint16_t;
    static constexpr Position kNoNode = 0xffff;

    std::optional<Position> find(const NodeAddress& address, std::string_view name) const;
    std::optional<Position> find_or_add(const NodeAddress& address);
    Position add(const NodeAddress& address);
    void start(const Node& node);
    void retire(Position position);
    Client* client_for(std::uint16_t slot) const;

    Task<> learn();
    Task<std::optional<std::string>> ask(Position position);
    std::optional<Position> next_node_to_ask();
    void adopt(const std::vector<ClusterNode>& masters);
    void plan_learning();
    void learn_soon();
    Task<> wait_until(SteadyTime time);
    void stop_retired();

    bool redirect(const std::string& from_host, QueuedCommand command, std::string_view error);
    void on_node_state(const NodeAddress& address, bool up, std::string_view reason);
    void report_state();
    std::string what_is_missing() const;

    Executor executor_;
    ClusterOptions options_;
    OnState on_state_;
    bool is_down_ = false;
    bool running_ = false;
    bool stopped_ = false;
    bool learned_ = false;  // the owners are known
    bool moved_ = false;    // one is known to have changed since they were read
    bool changed_ = false;  // one had, when they were read last

    std::vector<std::optional<Node>> nodes_;
    std::array<Position, kSlots> owners_;
    std::vector<Retired> retired_;  // may still have replies to come

    std::size_t last_asked_ = 0;
    std::string logged_fault_;  // of the list; logged again when it is another
    SteadyTime learned_at_;     // or tried to
    SteadyTime learn_at_;
    Wakeup wakeup_;  // run() sleeps here
    Timer timer_;
    std::minstd_rand random_;
};

// Where counts are kept: one Redis, or a cluster of them. Its users say in which slot their keys
// are, and need not know which of the two it is. A handle: copies are of the same servers.
class RedisServers {
  public:
    RedisServers() = default;                                                     // none
    RedisServers(std::shared_ptr<Client> client) : client_(std::move(client)) {}  // NOLINT: is one
    RedisServers(std::shared_ptr<Cluster> cluster)
        : cluster_(std::move(cluster)) {}  // NOLINT: likewise

    explicit operator bool() const { return client_ != nullptr || cluster_ != nullptr; }
    bool is_cluster() const { return cluster_ != nullptr; }

    // Connects and stays connected until stop(). Once.
    void start(Executor executor) const {
        if (client_) spawn_vital(executor, Client::run(client_));
        if (cluster_) spawn_vital(executor, Cluster::run(cluster_));
    }
    // Fails all requests that wait before it returns. Not from on_reply or on_failure.
    void stop() const {
        if (client_) client_->stop();
        if (cluster_) cluster_->stop();
    }

    // As Client::send() and Cluster::send(). `slot` is looked at in a cluster only.
    std::optional<Failure> send(Request& request, std::uint16_t slot,
                                SteadyTime asked = std::chrono::steady_clock::now(),
                                SteadyTime needed_by = SteadyTime::max()) const {
        return cluster_ == nullptr ? client_->send(request, asked, needed_by)
                                   : cluster_->send(request, slot, asked, needed_by);
    }
    // As Client::send_with_next(); `slot` likewise.
    std::optional<Failure> send_with_next(Request& request, std::uint16_t slot) const {
        return cluster_ == nullptr ? client_->send_with_next(request)
                                   : cluster_->send_with_next(request, slot);
    }
    // As Client::flush(). In a cluster, whose commands go many ways, nothing.
    void flush() const {
        if (client_ != nullptr) client_->flush();
    }
    // Whether commands leave at once. Not for a cluster.
    bool is_connected() const { return client_ != nullptr && client_->is_connected(); }
    // Whether no server answers for that slot, as far as is known.
    bool is_away(std::uint16_t slot) const {
        return cluster_ == nullptr ? !client_->is_up() : cluster_->is_away(slot);
    }

  private:
    std::shared_ptr<Client> client_;
    std::shared_ptr<Cluster> cluster_;
};

}  // namespace tidegate::redis

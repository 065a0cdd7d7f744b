// SentinelOrder and its helpers say what to ask a sentinel, read its answers, and choose the order
// in which sentinels are tried.
//
// Pure: no sockets, no clock. ServerConnection does the I/O, MasterWatch decides.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "net/asio.hpp"
#include "net/wakeup.hpp"
#include "redis/cluster_map.hpp"
#include "redis/resp.hpp"
#include "redis/server_connection.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::redis {

struct SentinelOptions {
    std::string master;  // as the sentinels name it
    std::vector<NodeAddress> nodes;
    std::string username;  // of the sentinels, which have passwords of their own
    std::string password;
    std::shared_ptr<const TlsClient> tls;  // null: not encrypted
    // For one sentinel: connecting, its password, one question.
    std::chrono::milliseconds timeout{500};
};

// The answer to SENTINEL get-master-addr-by-name; nothing when it is no address.
std::optional<NodeAddress> master_of(const RespValue& reply);

// The new address, if `reply` is a message of +switch-master about `master`.
std::optional<NodeAddress> switch_of(const RespValue& reply, std::string_view master);

// Why a sentinel does not know `master`, and which it knows; `masters` is its answer to SENTINEL
// MASTERS.
std::string unknown_master(std::string_view master, const RespValue& masters);

// In which order sentinels are tried: in turn, so that one whose knowledge is stale does not
// decide alone, and those that failed lately after all others.
class SentinelOrder {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // `first` spreads a hundred proxies over the sentinels.
    SentinelOrder(std::size_t nodes, std::size_t first);

    std::vector<std::size_t> next(Time now);
    void failed(std::size_t node, Time now) { failed_at_[node] = now; }
    void answered(std::size_t node) { failed_at_[node].reset(); }

  private:
    std::vector<std::optional<Time>> failed_at_;
    std::size_t first_;
};

// Knows from the sentinels where the Redis master is, for the whole process.
//
// One thread of its own, so that neither workers nor sentinels pay for the number of threads: it is
// subscribed to the switches of one sentinel, of another as soon as that is lost, and asks any of
// them when a client needs the address. It logs once which sentinels are of no use; clients go on
// using a master that is well without them.
class MasterWatch {
  public:
    struct News {
        std::optional<NodeAddress> master;  // none: no sentinel could say
        bool is_switch = false;  // to all followers, unasked: those that are elsewhere leave
        // Without a master: why, and whether that is because sentinels were reached which refuse
        // us, or do not know the master.
        bool denied = false;
        std::string fault;
    };
    using OnNews = std::function<void(const News&)>;

    // Begins to follow. Requires nodes.
    explicit MasterWatch(SentinelOptions options);
    ~MasterWatch();
    MasterWatch(const MasterWatch&) = delete;
    MasterWatch& operator=(const MasterWatch&) = delete;

    const std::string& master_name() const { return options_.master; }

    // From any thread. `on_news` runs on `executor`, whose context must live until leave(); what
    // was posted before that may still run after it.
    int follow(Executor executor, OnNews on_news);
    void leave(int follower);
    // Asks the sentinels, now: one News that is no switch follows, within the timeout of each.
    void ask(int follower);

  private:
    struct Follower {
        Executor executor;
        OnNews on_news;
        bool asked = false;
        bool is_awaiting = false;  // the answer to the round of asking that is under way
    };
    using Fault = ServerConnection::Fault;
    using Reply = ServerConnection::Reply;
    using ConnectionPtr = std::shared_ptr<ServerConnection>;

    Task<> try_all();
    Task<> answer_followers();
    bool begin_round();
    Task<News> ask_all();
    Task<Result<NodeAddress, Fault>> ask_one(std::size_t node);
    Task<> subscribe_forever();
    Task<std::string> subscribe_to(std::size_t node, bool& subscribed);
    Task<std::string> hear_switches(ConnectionPtr connection);
    void on_subscribed(std::size_t node, const NodeAddress& master);
    void on_lost(std::size_t node, const std::string& reason);
    void announce(const NodeAddress& master);
    void tell(const News& news);
    std::chrono::milliseconds jittered(std::chrono::milliseconds time);
    Task<Result<ConnectionPtr, Fault>> connect(std::size_t node);

    const SentinelOptions options_;
    asio::io_context io_{1};
    Wakeup asked_;  // answer_followers() sleeps here
    SentinelOrder order_;
    NodeAddress announced_;
    bool has_logged_loss_ = false;
    std::chrono::steady_clock::time_point next_log_of_loss_;
    bool has_logged_none_ = false;  // that there is no sentinel to subscribe to
    std::minstd_rand random_;

    std::mutex mutex_;
    std::map<int, Follower> followers_;  // guarded by mutex_
    int last_follower_ = 0;              // likewise

    std::thread thread_;
};

}  // namespace tidegate::redis

// Knows from the sentinels where the Redis master is, for the whole process.
//
// One thread of its own, so that neither workers nor sentinels pay for the number of threads: it is
// subscribed to the switches of one sentinel, of another as soon as that is lost, and asks any of
// them when a client needs the address. It logs once which sentinels are of no use; clients go on
// using a master that is well without them.
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
#include <thread>

#include "net/asio.hpp"
#include "net/wakeup.hpp"
#include "redis/sentinel.hpp"
#include "redis/server_connection.hpp"

namespace tidegate::redis {

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

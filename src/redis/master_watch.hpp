// Knows where a Redis master is, from its sentinels, for the whole process.
//
// One thread of its own, so that neither workers nor sentinels pay for the number of threads: it is
// subscribed to one sentinel's switches, at another as soon as that is lost, and asks any of them
// when a client wants to know. Sentinels that are of no use are told of once; a master that is well
// goes on being used without them.
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
#include "redis/sentinel_connection.hpp"

namespace tidegate::redis {

class MasterWatch {
  public:
    struct News {
        std::optional<MasterAddress> master;  // none: nobody could say
        bool is_switch = false;               // told to all, unasked: whoever is elsewhere leaves
        // Without a master: why, and whether that is because sentinels were reached which do not
        // want us, or know nothing of it.
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
    // Asks the sentinels, now: one News that is no switch follows, within patience for each.
    void ask(int follower);

  private:
    struct Follower {
        Executor executor;
        OnNews on_news;
        bool asked = false;
        bool is_awaiting = false;  // the answer to the round of asking that is under way
    };
    using Fault = SentinelConnection::Fault;

    Task<> try_all();
    Task<> answer_asks();
    bool begin_round();
    Task<News> ask_around();
    Task<Result<MasterAddress, Fault>> ask_one(std::size_t node);
    Task<> follow_switches();
    Task<std::string> follow_one(std::size_t node, bool& followed);
    Task<std::string> hear_switches(std::shared_ptr<SentinelConnection> connection);
    void on_followed(std::size_t node, const MasterAddress& master);
    void on_lost(std::size_t node, const std::string& reason);
    void announce(const MasterAddress& master);
    void tell(const News& news);
    std::chrono::milliseconds jittered(std::chrono::milliseconds time);
    std::shared_ptr<SentinelConnection> connection_to(std::size_t node);

    const SentinelOptions options_;
    asio::io_context io_{1};
    Wakeup asked_;  // answer_asks() sleeps here
    SentinelOrder order_;
    MasterAddress announced_;
    bool told_lost_ = false;
    std::chrono::steady_clock::time_point quiet_until_;  // about sentinels that are lost
    bool told_alone_ = false;
    std::minstd_rand random_;

    std::mutex mutex_;
    std::map<int, Follower> followers_;  // guarded by mutex_
    int last_follower_ = 0;              // likewise

    std::thread thread_;
};

}  // namespace tidegate::redis

// Many requests at once, and the answers to them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tidegate::test {

// How many answers had each status; 0 stands for requests that got none.
using Statuses = std::map<int, int>;

// Sends `requests` GETs over `connections`, which take the `ports` in turn.
Statuses hammer(const std::vector<std::uint16_t>& ports, int connections, int requests,
                const std::string& more_fields = "", const std::string& from = "127.0.0.1");

// Requests that go on until they are stopped, about 200 a second on each connection.
class BackgroundLoad {
  public:
    // The next target; called by several threads.
    using NextRequest = std::function<std::string()>;

    // GETs of `/`.
    BackgroundLoad(std::uint16_t port, int connections);
    BackgroundLoad(std::uint16_t port, int connections, NextRequest next);
    ~BackgroundLoad() { stop(); }
    BackgroundLoad(const BackgroundLoad&) = delete;
    BackgroundLoad& operator=(const BackgroundLoad&) = delete;

    Statuses stop();

  private:
    void run(std::uint16_t port);

    NextRequest next_;
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    Statuses statuses_;  // guarded by mutex_
    std::vector<std::thread> threads_;
};

// Whether Redis made most of the last decisions of an access log. On a busy machine a few may come
// too late.
bool ends_with_redis(const std::vector<nlohmann::json>& log);

}  // namespace tidegate::test

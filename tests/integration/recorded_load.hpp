// Load with a record of every request: its target, its answer, and later which server had it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tidegate::test {

// GETs and POSTs in turn, each of a target of its own, on connections that are kept.
class RecordedLoad {
  public:
    struct Request {
        bool is_post = false;
        int status = 0;  // 0: no answer
        bool is_whole = false;
        bool went_well() const { return status == 200 && is_whole; }
    };
    using Requests = std::map<std::string, Request>;  // by target

    RecordedLoad(std::uint16_t port, int connections);
    ~RecordedLoad() { stop(); }
    RecordedLoad(const RecordedLoad&) = delete;
    RecordedLoad& operator=(const RecordedLoad&) = delete;

    // How many requests have ended well so far.
    int well() const { return well_; }
    // All that were sent, each to its end.
    const Requests& stop();

  private:
    void run(std::uint16_t port, int connection);

    std::atomic<bool> stopping_{false};
    std::atomic<int> well_{0};
    std::mutex mutex_;
    Requests requests_;  // guarded by mutex_
    std::vector<std::thread> threads_;
};

}  // namespace tidegate::test

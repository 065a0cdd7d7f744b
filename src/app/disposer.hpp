// Destroys configurations on a thread of its own: one with 100,000 keys or 10,000 routes takes
// longer than a loop may stand still, and the last request that uses it may end on any loop.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "config/config.hpp"

namespace tidegate::app {

class Disposer {
  public:
    using ConfigPtr = std::shared_ptr<const config::Config>;

    Disposer();
    // Destroys what it still has. Configurations that end later are destroyed where they end.
    ~Disposer();
    Disposer(const Disposer&) = delete;
    Disposer& operator=(const Disposer&) = delete;

    // The same configuration, which this destroys when its last owner lets go. Null stays null.
    ConfigPtr adopt(ConfigPtr config);

  private:
    // Shared with the configurations, which may outlive this.
    struct Queue {
        std::mutex mutex;
        std::condition_variable_any news;
        std::vector<ConfigPtr> configs;
        bool has_ended = false;

        void run(const std::stop_token& stop);
        void put(ConfigPtr&& config);
    };

    std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
    std::jthread thread_;
};

}  // namespace tidegate::app

#include "app/disposer.hpp"

#include <utility>

#include "base/process.hpp"

namespace tidegate::app {

void Disposer::Queue::run(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    for (;;) {
        news.wait(lock, stop, [this] { return !configs.empty(); });
        if (configs.empty()) return;  // it is to stop
        std::vector<ConfigPtr> ended = std::exchange(configs, {});
        lock.unlock();
        ended.clear();
        lock.lock();
    }
}

// Without memory for the queue, the caller destroys it.
void Disposer::Queue::put(ConfigPtr&& config) {
    {
        const std::lock_guard lock(mutex);
        if (has_ended) return;
        configs.push_back(std::move(config));
    }
    news.notify_one();
}

Disposer::Disposer()
    : thread_([queue = queue_](const std::stop_token& stop) {
          block_all_signals();
          queue->run(stop);
      }) {}

Disposer::~Disposer() {
    {
        const std::lock_guard lock(queue_->mutex);
        queue_->has_ended = true;
    }
    thread_.request_stop();
    thread_.join();
}

Disposer::ConfigPtr Disposer::adopt(ConfigPtr config) {
    if (!config) return config;
    const config::Config* const address = config.get();
    return {address, [queue = queue_, owner = std::move(config)](const config::Config*) mutable {
                queue->put(std::move(owner));
            }};
}

}  // namespace tidegate::app

#include "app/config_snapshot.hpp"

#include <algorithm>
#include <utility>

#include "base/process.hpp"

namespace tidegate::app {

const ListenerTls* find_listener_tls(const std::vector<ListenerTls>& all,
                                     const config::Address& address) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const ListenerTls& one) { return one.address == address; });
    return found == all.end() ? nullptr : &*found;
}

Result<std::vector<ListenerTls>, std::string> make_listener_tls(
    const config::Config& config, const std::vector<ListenerTls>& before, SteadyTime now) {
    std::vector<ListenerTls> all;
    for (const config::Listen& listen : config.listen) {
        if (!listen.tls) continue;
        const ListenerTls* const former = find_listener_tls(before, listen.address);
        if (former != nullptr && former->settings == *listen.tls) {
            all.push_back(*former);
            continue;
        }
        auto credentials = parse_credentials(*listen.tls);
        if (!credentials) {
            return "the listener on " + listen.address.to_string() + ": " + credentials.error();
        }
        all.push_back({listen.address, *listen.tls, std::move(*credentials),
                       former != nullptr
                           ? former->tickets
                           : std::make_shared<TicketKeys>(listen.tls->ticket_keys, now)});
    }
    return all;
}

void use_ticket_keys(const std::vector<ListenerTls>& all, SteadyTime now) {
    for (const ListenerTls& one : all) one.tickets->use(one.settings.ticket_keys, now);
}

void rotate_ticket_keys(const std::vector<ListenerTls>& all, SteadyTime now) {
    for (const ListenerTls& one : all) one.tickets->rotate(now);
}

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

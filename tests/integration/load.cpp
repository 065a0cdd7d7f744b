#include "integration/load.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "integration/client.hpp"

namespace tidegate::test {
namespace {

// The client makes a new connection after an answer that closes it, or after none.
class Patient {
  public:
    Patient(std::uint16_t port, std::string from) : port_(port), from_(std::move(from)) {}

    int status_of(const std::string& request) {
        try {
            if (!client_) client_.emplace(port_, from_);
            const auto answer = client_->ask(request);
            if (same_name(answer.field("Connection"), "close")) client_.reset();
            return answer.broken ? 0 : answer.status();
        } catch (const std::exception&) {
            client_.reset();
            return 0;
        }
    }

  private:
    std::uint16_t port_;
    std::string from_;
    std::optional<RawClient> client_;
};

}  // namespace

Statuses hammer(const std::vector<std::uint16_t>& ports, int connections, int requests,
                const std::string& more_fields, const std::string& from) {
    std::mutex mutex;
    Statuses statuses;
    std::atomic<int> left{requests};
    std::vector<std::thread> threads;
    for (int i = 0; i < connections; ++i) {
        threads.emplace_back([&, port = ports[static_cast<std::size_t>(i) % ports.size()]] {
            Patient client(port, from);
            while (left-- > 0) {
                const int status = client.status_of(get_request("/", more_fields));
                const std::lock_guard lock(mutex);
                ++statuses[status];
            }
        });
    }
    for (auto& thread : threads) thread.join();
    return statuses;
}

BackgroundLoad::BackgroundLoad(std::uint16_t port, int connections)
    : BackgroundLoad(port, connections, [] { return get_request("/"); }) {}

BackgroundLoad::BackgroundLoad(std::uint16_t port, int connections, NextRequest next)
    : next_(std::move(next)) {
    for (int i = 0; i < connections; ++i) threads_.emplace_back([this, port] { run(port); });
}

Statuses BackgroundLoad::stop() {
    stopping_ = true;
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    return statuses_;
}

void BackgroundLoad::run(std::uint16_t port) {
    Patient client(port, "127.0.0.1");
    while (!stopping_) {
        const int status = client.status_of(next_());
        {
            const std::lock_guard lock(mutex_);
            ++statuses_[status];
        }
        std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
}

bool ends_with_redis(const std::vector<nlohmann::json>& log) {
    const std::ptrdiff_t last = std::min<std::ptrdiff_t>(50, std::ssize(log));
    return 2 * std::count_if(log.end() - last, log.end(),
                             [](const auto& line) { return line.at("store") == "redis"; }) >
           last;
}

}  // namespace tidegate::test

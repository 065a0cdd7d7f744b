#include "integration/recorded_load.hpp"

#include <chrono>
#include <exception>
#include <optional>

#include "integration/client.hpp"

namespace tidegate::test {

RecordedLoad::RecordedLoad(std::uint16_t port, int connections) {
    for (int i = 0; i < connections; ++i) {
        threads_.emplace_back([this, port, i] { run(port, i); });
    }
}

const RecordedLoad::Requests& RecordedLoad::stop() {
    stopping_ = true;
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    return requests_;
}

void RecordedLoad::run(std::uint16_t port, int connection) {
    std::optional<RawClient> client;
    for (int i = 0; !stopping_; ++i) {
        const std::string target = "/" + std::to_string(connection) + "-" + std::to_string(i);
        Request request;
        request.is_post = i % 2 == 1;
        try {
            if (!client) client.emplace(port);
            const auto answer =
                client->ask(request.is_post ? post_request(target, "body") : get_request(target));
            request.status = answer.status();
            request.is_whole = !answer.broken;
            if (answer.broken || same_name(answer.field("Connection"), "close")) client.reset();
        } catch (const std::exception&) {
            client.reset();
        }
        if (request.went_well()) ++well_;
        {
            const std::lock_guard lock(mutex_);
            requests_.emplace(target, request);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds{40});
    }
}

}  // namespace tidegate::test

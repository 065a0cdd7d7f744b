// What the tests of the store's ways to Redis share: a client of a FakeRedis.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "redis/client.hpp"
#include "store/metrics.hpp"
#include "store/scripts.hpp"
#include "unit/fake_redis.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::test {

// A member of a derived class uses the client; its destructor calls stop().
struct RedisFixture {
    explicit RedisFixture(std::vector<const redis::Script*> scripts = store::all_scripts(),
                          std::size_t max_in_flight = 100,
                          std::chrono::milliseconds timeout = std::chrono::seconds{10}) {
        redis::ClientOptions options;
        options.host = "127.0.0.1";
        options.port = server.port();
        options.timeout = timeout;
        options.probe_every = std::chrono::milliseconds{20};
        options.max_in_flight = max_in_flight;
        options.scripts = std::move(scripts);
        client =
            std::make_shared<redis::Client>(io.get_executor(), options, redis::Client::OnState{});
    }
    void run() {
        ++running;
        spawn(io.get_executor(), redis::Client::run(client),
              [this](const std::exception_ptr&) { --running; });
    }
    void stop() {
        client->stop();
        CHECK(wait([&] { return running == 0; }));
    }
    template <class Done>
    bool wait(Done done) {
        return run_until(io, done);
    }
    void await_up(bool up) {
        CHECK(wait([&] { return client->is_up() == up; }));
    }
    bool metrics_have(const std::string& line) const { return has_line(text_of(metrics), line); }

    asio::io_context io;
    FakeRedis server{io};
    store::Metrics metrics;
    std::shared_ptr<redis::Client> client;
    int running = 0;  // coroutines that have not ended
};

}  // namespace tidegate::test

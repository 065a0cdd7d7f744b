// A client of a FakeRedis, for tests of its commands and of its connections.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "redis/client.hpp"
#include "unit/fake_redis.hpp"
#include "unit/redis_asker.hpp"

namespace tidegate::redis {

inline ClientOptions options_for(int port) {
    ClientOptions options;
    options.host = "127.0.0.1";
    options.port = port;
    options.probe_every = milliseconds{20};
    options.scripts = {&kScript};
    return options;
}

// A client on the loop of its server; stopped and seen to end with the test.
struct ClientRig {
    explicit ClientRig(const std::function<void(ClientOptions&)>& change = {}) {
        ClientOptions options = options_for(server.port());
        options.timeout = std::chrono::seconds{5};  // tests that are about time choose their own
        if (change) change(options);
        client = std::make_shared<Client>(io.get_executor(), options,
                                          [this](bool up, std::string_view reason) {
                                              states.push_back(up);
                                              reasons.emplace_back(reason);
                                          });
    }
    ~ClientRig() {
        client->stop();
        if (running) CHECK(until([&] { return ended; }));
    }

    void run() {
        running = true;
        spawn(io.get_executor(), Client::run(client),
              [this](const std::exception_ptr&) { ended = true; });
    }
    template <class Done>
    bool until(Done done) {
        return test::run_until(io, done);
    }
    // Up to a command that was answered: connected, and nothing is under way.
    void connect() {
        run();
        CHECK(ask("first").failure == std::nullopt);
        forget();
    }
    // Until it is loaded the server does not know it.
    void forget_script() {
        knows_script = false;
        server.other = [this](const test::Words& words) {
            knows_script = knows_script || words[0] == "SCRIPT";
            return "+OK\r\n";
        };
        server.evalsha = [this](const test::Words&) {
            return knows_script ? "+counted\r\n" : "-NOSCRIPT No matching script.\r\n";
        };
    }
    void forget() {
        server.seen.clear();
        server.by_read.clear();
    }
    Asker& send(std::string name) {
        Asker& asker = askers.emplace_back(std::move(name));
        refused = client->send(asker);
        return asker;
    }
    Asker& ask(std::string name) {
        Asker& asker = send(std::move(name));
        CHECK(refused == std::nullopt);
        CHECK(until([&] { return asker.told != 0; }));
        return asker;
    }
    std::string first_reason() const { return reasons.empty() ? "" : reasons.front(); }
    bool is_down() const { return !client->is_up(); }

    asio::io_context io;
    test::FakeRedis server{io};
    std::shared_ptr<Client> client;
    std::vector<bool> states;  // in the order in which they were woken
    std::vector<std::string> reasons;
    std::deque<Asker> askers;
    std::optional<Failure> refused;  // of the last send
    bool knows_script = true;
    bool running = false;
    bool ended = false;
};

}  // namespace tidegate::redis

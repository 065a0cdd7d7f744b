// The engine with the in-process store, without a connection.
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "ask/engine.hpp"
#include "unit/ask_world.hpp"

using namespace tidegate;
using namespace tidegate::ask;

namespace {

// A worker's engine. A password is right if it is `right`.
struct EngineWorld : World {
    explicit EngineWorld(const std::string& yaml, std::size_t password_threads = 1)
        : World(yaml),
          passwords({.threads = password_threads},
                    [](const auto&, std::string_view, std::string_view password) {
                        return password == "right";
                    }) {}

    bool counts(const std::string& line) const { return has(metrics.serialize({}), line); }

    asio::io_context io{1};
    store::MemoryStore memory{store::MemoryStore::Options{}};
    store::Limiter limiter{memory, metrics.shard(0)};
    PasswordPool passwords;
    Engine engine{io.get_executor(), limiter, passwords, metrics.shard(0)};
};

// A request that the engine decides about, and its client, who may leave.
struct Client {
    Client(EngineWorld& the_world, const std::string& head, bool trusted = false)
        : world(the_world), request(the_world, head, trusted) {}

    void begin() {
        spawn_vital(world.io.get_executor(), ask(*this));
        poll();
    }
    Fault decide() {
        begin();
        while (!is_decided && world.io.run_one() > 0) {
        }
        REQUIRE(is_decided);
        return request.decision.fault;
    }
    void leave() {
        left = true;
        wakeup.wake_later();
        poll();
    }
    void poll() {
        world.io.restart();
        world.io.poll();
        world.io.restart();
    }

    EngineWorld& world;
    Request request;
    Wakeup wakeup{world.io.get_executor()};
    bool left = false;
    bool is_decided = false;

  private:
    static Task<> ask(Client& self) {
        const auto has_left = [](void* client) { return static_cast<Client*>(client)->left; };
        const Question question{self.world.rules, self.request.facts, self.request.decision,
                                self.wakeup,      has_left,           &self};
        if (!self.world.engine.begin(question)) co_await self.world.engine.finish(question);
        self.is_decided = true;
    }
};

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";

// Users by password: `alice` is one of them.
struct Passwords {
    Passwords() {
        std::string name = (std::filesystem::temp_directory_path() / "engine-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        folder = name;
        std::ofstream(folder / "users") << "alice:$5$rounds=1000$saltsalt$nKsyTQBmKz4GdCft0Sv/"
                                           "FbzLiu0y3wFdEXOzudLQLJ5\n";
    }
    ~Passwords() { std::filesystem::remove_all(folder); }
    Passwords(const Passwords&) = delete;
    Passwords& operator=(const Passwords&) = delete;

    std::string yaml(const std::string& guesses, const std::string& more = "") const {
        return kUpstream + "identity: {failed_credentials: " + guesses +
               ", user: [{basic: {htpasswd: \"" + (folder / "users").string() + "\"}}]}\n" + more;
    }

    std::filesystem::path folder;
};

std::string with_right_password() {
    return get("Authorization: Basic YWxpY2U6cmlnaHQ=\r\n");  // alice:right
}

std::string with_wrong_password() {
    return get("Authorization: Basic YWxpY2U6d3Jvbmc=\r\n");  // alice:wrong
}

}  // namespace

TEST_CASE("engine: without limits a request is admitted at once, and nothing is asked") {
    EngineWorld world(kUpstream);
    Client client(world, get());
    client.begin();
    CHECK(client.is_decided);
    CHECK(client.request.decision.goes_on());
    CHECK(client.request.decision.route != nullptr);
    CHECK(client.request.decision.charge.items.empty());
}

TEST_CASE("engine: the store admits requests up to the limit and denies the next one") {
    EngineWorld world(kUpstream + "limits: [1/h]\n");
    Client first(world, get());
    CHECK(first.decide() == Fault::none);
    REQUIRE(first.request.decision.ratelimit.size() == 1);
    CHECK(first.request.decision.ratelimit[0].remaining == 0);
    Client second(world, get());
    CHECK(second.decide() == Fault::limited);
    CHECK(world.counts(R"(policy="default",limit="1h",outcome="denied"} 1)"));
}

TEST_CASE("engine: a cost that is ignored and a chain that names no client are counted") {
    EngineWorld world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
        "policies: {p: {key: [ip], limits: [10/s]}}\n"
        "routes: [{name: all, policies: [p], cost: {header: x-cost, max: 9}}]\n"
        "identity: {client_ip: {trusted_proxies: [203.0.113.0/24]}}\n");
    Client client(world, get("X-Cost: 10\r\nX-Forwarded-For: nobody\r\n"), true);
    CHECK(client.decide() == Fault::none);
    CHECK(world.counts("tidegate_cost_ignored_total{reason=\"out_of_range\"} 1\n"));
    CHECK(world.counts("tidegate_forwarding_invalid_total 1\n"));
}

TEST_CASE("engine: a right password gives its guess back, a wrong one does not") {
    const Passwords passwords;
    EngineWorld world(passwords.yaml("1/h"));
    Client right(world, with_right_password());
    CHECK(right.decide() == Fault::none);
    CHECK(right.request.decision.user == "alice");
    Client wrong(world, with_wrong_password());
    CHECK(wrong.decide() == Fault::bad_credentials);
    Client again(world, get("Authorization: Basic YWxpY2U6b3RoZXI=\r\n"));  // alice:other
    CHECK(again.decide() == Fault::limited);
    // A credential that was found right needs no guess.
    Client known(world, with_right_password());
    CHECK(known.decide() == Fault::none);
}

TEST_CASE("engine: an address over its limits gets that answer before its password is checked") {
    const Passwords passwords;
    EngineWorld world(passwords.yaml("100/h", "limits: [1/h]\n"));
    Client first(world, get());
    CHECK(first.decide() == Fault::none);
    Client guessing(world, with_wrong_password());
    CHECK(guessing.decide() == Fault::limited);
    CHECK_FALSE(world.counts(R"(policy="failed_credentials",limit="1h",outcome="admitted"} 1)"));
}

TEST_CASE("engine: of requests with one new credential, one is a guess and the others wait") {
    const Passwords passwords;
    EngineWorld world(passwords.yaml("1/h"), 0);  // no thread: nothing is checked
    Client first(world, with_right_password());
    Client second(world, with_right_password());
    first.begin();
    second.begin();
    CHECK(world.passwords.waiting() == 1);
    CHECK(world.counts(R"(policy="failed_credentials",limit="1h",outcome="admitted"} 1)"));
    SUBCASE("the first one leaves: its guess stays taken, the next one has none") {
        first.leave();
        CHECK(first.is_decided);
        CHECK(first.request.decision.fault == Fault::client_left);
        CHECK(second.is_decided);
        CHECK(second.request.decision.fault == Fault::limited);
    }
    SUBCASE("the second one leaves: the first one still waits") {
        second.leave();
        CHECK(second.is_decided);
        CHECK(second.request.decision.fault == Fault::client_left);
        CHECK_FALSE(first.is_decided);
        first.leave();
        CHECK(first.is_decided);
    }
    CHECK(world.passwords.waiting() == 0);
}

TEST_CASE(
    "engine: leaky_bucket holds a request in line, and a client that leaves gives up its place") {
    EngineWorld world(kUpstream +
                      "limits: [{quota: 1, per: 1min, burst: 1, algorithm: leaky_bucket}]\n");
    Client first(world, get());
    CHECK(first.decide() == Fault::none);
    Client second(world, get());
    second.begin();
    CHECK_FALSE(second.is_decided);
    Client third(world, get());
    CHECK(third.decide() == Fault::limited);
    second.leave();
    CHECK(second.is_decided);
    CHECK(second.request.decision.fault == Fault::client_left);
    world.engine.settle(second.request.decision, 0);
    Client fourth(world, get());
    fourth.begin();
    CHECK_FALSE(fourth.is_decided);  // in line, at the place of the second
    fourth.leave();
    CHECK(fourth.is_decided);
}

TEST_CASE("engine: leaky_bucket lets a request go on when its turn has come") {
    EngineWorld world(kUpstream +
                      "limits: [{quota: 100, per: 1s, burst: 2, algorithm: leaky_bucket}]\n");
    Client first(world, get());
    CHECK(first.decide() == Fault::none);
    Client second(world, get());
    CHECK(second.decide() == Fault::none);
    CHECK(second.request.decision.charge.verdict.wait > limit::Micros{0});
}

// The engine with the in-process store, without a connection.
#include <stdlib.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "ask/engine.hpp"
#include "ask/fault.hpp"
#include "identity/key_source.hpp"
#include "net/asio.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::ask::engine_test {

namespace {

// A worker's engine. A password is right if it is `right`.
struct EngineWorld : World {
    explicit EngineWorld(const std::string& yaml, std::size_t password_threads = 1)
        : World(yaml),
          passwords({.threads = password_threads},
                    [](const auto&, std::string_view, std::string_view password) {
                        return password == "right";
                    }) {}

    bool counts(const std::string& line) const { return has(figures(), line); }

    asio::io_context io{1};
    store::MemoryStore memory{store::MemoryStore::Options{}};
    store::Metrics store_metrics;
    store::Limiter limiter{memory, store_metrics};
    PasswordPool passwords;
    Engine engine{io.get_executor(), limiter, passwords, metrics};
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
    // Work that must not take any more time.
    Fault decide_now() {
        poll();
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

// Keys that a test fetches. Tokens are not signed by them: the status shows whether a token's key
// is there.
struct FetchedKeys : EngineWorld {
    explicit FetchedKeys(const std::string& guesses = "1/h")
        : EngineWorld(
              kUpstream + "identity: {failed_credentials: " + guesses +
              ", user: [{jwt: {jwks: 'https://idp.example/keys', algorithms: [ES256]}}]}\n"),
          source(*dynamic_cast<const identity::JwtMethod&>(*rules.config->user_methods.at(0).how)
                      .keys) {
        fetched("old");
    }

    void begin_fetch() {
        ++fetches.begun;
        source.publish(fetches);
    }
    // The keys are one of that name.
    void fetched(const std::string& kid) {
        if (!fetches.is_under_way()) ++fetches.begun;
        fetches.ended = fetches.succeeded = fetches.begun;
        const auto keys =
            identity::JwkSet::parse(R"({"keys":[{"kty":"EC","crv":"P-256","kid":")" + kid +
                                        R"(","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
                                        R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})",
                                    identity::JwkSet::Origin::fetched);
        REQUIRE(keys);
        source.put(*keys);
        source.publish(fetches);
    }
    void failed() {
        if (!fetches.is_under_way()) ++fetches.begun;
        fetches.ended = fetches.begun;
        source.publish(fetches);
    }
    // When the next fetch may begin, from now on.
    void allow_fetch_in(std::chrono::milliseconds time) {
        fetches.next = std::chrono::steady_clock::now() + time;
        source.publish(fetches);
    }

    identity::KeySource& source;
    identity::KeyFetches fetches;
};

// A token that names the key `new`; RFC 7515 appendix A.3 has a signature of that form.
std::string with_token(const std::string& payload = "e30") {
    return get("Authorization: Bearer eyJhbGciOiJFUzI1NiIsImtpZCI6Im5ldyJ9." + payload +
               ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-"
               "Kg6NU1Q\r\n");
}

std::int64_t retry_after(const Client& client) {
    return client.request.decision.authentication->retry_after.count();
}

}  // namespace

TEST_CASE("engine: a token with an unknown key waits for a fetch, and holds no guess meanwhile") {
    FetchedKeys world;
    world.begin_fetch();
    Client client(world, with_token());
    Client other(world, with_token("e30g"));
    Client same(world, with_token());
    client.begin();
    other.begin();
    same.begin();
    // The allowance is one guess.
    CHECK_FALSE(client.is_decided);
    CHECK_FALSE(other.is_decided);
    CHECK_FALSE(same.is_decided);
    CHECK(world.source.waiters() == 3);
    CHECK_FALSE(world.source.take_wanted());  // the one under way may bring the key
    SUBCASE("it brings the key: the token is checked, which is a guess") {
        world.fetched("new");
        CHECK(client.decide_now() == Fault::bad_credentials);
        CHECK(client.request.decision.authentication->fault ==
              identity::CredentialFault::signature);
        CHECK(other.decide_now() == Fault::limited);
    }
    SUBCASE("it fails, and may be repeated within the second") {
        world.fetches.next = std::chrono::steady_clock::now();
        world.failed();
        client.poll();
        CHECK_FALSE(client.is_decided);
        CHECK(world.source.take_wanted());
        world.fetched("new");
        CHECK(client.decide_now() == Fault::bad_credentials);
    }
    SUBCASE("it began before the requests came, and the next one is far") {
        world.fetches.next = std::chrono::steady_clock::now() + std::chrono::milliseconds(4'500);
        world.fetched("other");
        CHECK(client.decide_now() == Fault::credentials_unchecked);
        CHECK(retry_after(client) == 5);
        CHECK(other.decide_now() == Fault::credentials_unchecked);
        // A fetch at the time of Retry-After would begin just before the client comes again, and
        // would not prove that the key is missing.
        CHECK_FALSE(world.source.take_wanted());
    }
    CHECK(world.source.waiters() == 0);
}

TEST_CASE("engine: an unknown key is refused once a later fetch has not brought it") {
    FetchedKeys world;
    world.allow_fetch_in(std::chrono::milliseconds(0));
    Client client(world, with_token());
    client.begin();
    CHECK_FALSE(client.is_decided);
    CHECK(world.source.take_wanted());
    world.begin_fetch();
    client.poll();
    CHECK_FALSE(client.is_decided);
    world.fetched("other");
    CHECK(client.decide_now() == Fault::bad_credentials);
    CHECK(client.request.decision.authentication->fault == identity::CredentialFault::unknown_key);
    CHECK(world.source.waiters() == 0);
}

TEST_CASE("engine: an unknown key is no guess, whether a fetch fails or is not allowed") {
    FetchedKeys world;
    world.allow_fetch_in(std::chrono::milliseconds(2'500));
    for (int i = 0; i < 3; ++i) {
        Client client(world, with_token());
        CHECK(client.decide() == Fault::credentials_unchecked);
        CHECK(retry_after(client) == 3);
    }
    CHECK_FALSE(world.source.take_wanted());
    world.allow_fetch_in(std::chrono::milliseconds(0));
    Client client(world, with_token());
    client.begin();
    world.begin_fetch();
    world.allow_fetch_in(std::chrono::milliseconds(4'900));
    world.failed();
    CHECK(client.decide_now() == Fault::credentials_unchecked);
    CHECK(retry_after(client) == 5);
    // The one guess is there still.
    world.fetched("new");
    Client guess(world, with_token());
    CHECK(guess.decide() == Fault::bad_credentials);
    Client more(world, with_token());
    CHECK(more.decide() == Fault::limited);
}

TEST_CASE("engine: an address without guesses left does not wait for keys, it is over its limit") {
    FetchedKeys world;
    Client guess(world, get("Authorization: Bearer not-a-token\r\n"));
    CHECK(guess.decide() == Fault::bad_credentials);
    world.begin_fetch();
    Client client(world, with_token());
    CHECK(client.decide() == Fault::limited);
    CHECK(world.source.waiters() == 0);
}

TEST_CASE("engine: a token waits for keys that are not there yet, and for a second at most") {
    FetchedKeys world;
    world.source.put(nullptr);
    world.begin_fetch();
    const auto begin = std::chrono::steady_clock::now();
    Client client(world, with_token());
    CHECK(client.decide() == Fault::credentials_unchecked);
    CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::seconds(1));
    CHECK(retry_after(client) == 1);
    CHECK(world.source.waiters() == 0);
}

TEST_CASE("engine: a client that leaves waits for no keys") {
    FetchedKeys world;
    world.begin_fetch();
    Client client(world, with_token());
    client.begin();
    CHECK(world.source.waiters() == 1);
    client.leave();
    CHECK(client.is_decided);
    CHECK(client.request.decision.fault == Fault::client_left);
    CHECK(world.source.waiters() == 0);
    world.fetched("new");
    client.poll();
}

TEST_CASE("engine: beyond the bound of requests that wait for keys, a request does not wait") {
    FetchedKeys world("1000/h");
    world.begin_fetch();
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 0; i < identity::KeySource::kWaitersMax; ++i) {
        numbers.push_back(world.source.wait(world.source.fetches(), 1'000 + i, [] {}).number);
    }
    Client client(world, with_token());
    CHECK(client.decide() == Fault::credentials_unchecked);
    CHECK(retry_after(client) == 1);
    world.source.leave(numbers.back());
    Client next(world, with_token());
    next.begin();
    CHECK_FALSE(next.is_decided);
    next.leave();
}

TEST_CASE("engine: without limits a request is admitted at once, without the store") {
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

TEST_CASE("engine: forwarding fields count as ignored from peers that are not trusted alone") {
    const std::string trusting = "identity: {client_ip: {trusted_proxies: [203.0.113.0/24]}}\n";
    EngineWorld world(kUpstream + trusting);
    for (const char* field : {"X-Forwarded-For: 192.0.2.1\r\n", "Forwarded: for=192.0.2.1\r\n",
                              "x-forwarded-for: a\r\nforwarded: b\r\n"}) {
        Client client(world, get(field));
        CHECK(client.decide() == Fault::none);
    }
    Client none(world, get("X-Forwarded-Proto: https\r\nX-Real-Ip: 192.0.2.1\r\n"));
    CHECK(none.decide() == Fault::none);
    Client trusted(world, get("X-Forwarded-For: 192.0.2.1\r\n"), true);
    CHECK(trusted.decide() == Fault::none);
    CHECK(world.counts("tidegate_forwarding_ignored_total 3\n"));
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

namespace {

constexpr CredentialQueue::Key kOne{1};
constexpr CredentialQueue::Key kOther{2};

struct QueueWorld {
    asio::io_context io{1};
    Wakeup first{io.get_executor()};
    Wakeup second{io.get_executor()};
    Wakeup third{io.get_executor()};
    CredentialQueue line;
};

TEST_CASE("credential_queue: of those with one credential the first goes on, then the next") {
    QueueWorld world;
    auto first = std::make_unique<CredentialQueue::Place>(world.line, kOne, world.first);
    auto second = std::make_unique<CredentialQueue::Place>(world.line, kOne, world.second);
    auto third = std::make_unique<CredentialQueue::Place>(world.line, kOne, world.third);
    CHECK(first->is_first());
    CHECK_FALSE(second->is_first());
    first.reset();
    CHECK(second->is_first());
    CHECK_FALSE(third->is_first());
    second.reset();
    CHECK(third->is_first());
}

TEST_CASE("credential_queue: credentials do not wait for one another") {
    QueueWorld world;
    const CredentialQueue::Place first(world.line, kOne, world.first);
    const CredentialQueue::Place second(world.line, kOther, world.second);
    CHECK(first.is_first());
    CHECK(second.is_first());
}

TEST_CASE("credential_queue: a request that leaves moves up those behind it, no other") {
    QueueWorld world;
    auto first = std::make_unique<CredentialQueue::Place>(world.line, kOne, world.first);
    auto second = std::make_unique<CredentialQueue::Place>(world.line, kOne, world.second);
    const CredentialQueue::Place third(world.line, kOne, world.third);
    second.reset();
    CHECK(first->is_first());
    CHECK_FALSE(third.is_first());
    first.reset();
    CHECK(third.is_first());
}

}  // namespace

TEST_CASE("fault: each error has a name of its own") {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < kFaults; ++i) {
        const auto fault = static_cast<Fault>(i);
        const std::string_view name = traits(fault).name;
        CAPTURE(name);
        if (fault == Fault::none || fault == Fault::limited) {
            CHECK(name.empty());
        } else {
            CHECK_FALSE(name.empty());
            CHECK(names.insert(name).second);
        }
    }
}

TEST_CASE("fault: an answer says why, and a fault without an answer closes the connection") {
    for (std::size_t i = 1; i < kFaults; ++i) {
        const FaultTraits& fault = traits(static_cast<Fault>(i));
        CAPTURE(fault.name);
        CHECK(fault.detail.empty() == (fault.status == 0));
        if (fault.status == 0) CHECK(fault.close);
    }
}

TEST_CASE("fault: each bound and each time that runs out has its status") {
    CHECK(traits(Fault::head_timeout).status == 408);
    CHECK(traits(Fault::body_timeout).status == 408);
    CHECK(traits(Fault::body_made_room).status == 408);
    CHECK(traits(Fault::body_too_large).status == 413);
    CHECK(traits(Fault::uri_too_long).status == 414);
    CHECK(traits(Fault::head_too_large).status == 431);
    CHECK(traits(Fault::too_many_fields).status == 431);
    CHECK(traits(Fault::bad_upgrade).status == 400);
    CHECK(traits(Fault::upgrade_version).status == 426);
    CHECK(traits(Fault::upstream_unreachable).status == 502);
    CHECK(traits(Fault::upstream_tls).status == 502);
    CHECK(traits(Fault::upstream_no_http2).status == 502);
    CHECK(traits(Fault::upstream_refused).status == 503);
    CHECK(traits(Fault::upgrade_ignored).status == 502);
    CHECK(traits(Fault::upstream_exhausted).status == 503);
    CHECK(traits(Fault::connect_timeout).status == 504);
    CHECK(traits(Fault::upstream_timeout).status == 504);
}

}  // namespace tidegate::ask::engine_test

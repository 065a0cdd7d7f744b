#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "redis/client.hpp"
#include "redis/sentinels.hpp"
#include "unit/fake_redis.hpp"
#include "unit/fake_sentinel.hpp"

namespace tidegate::redis::sentinels_test {

using namespace std::chrono_literals;
using test::FakeRedis;
using test::FakeSentinel;
using test::run_until;
using test::Words;

namespace {

using Kind = RespValue::Kind;
using Order = std::vector<std::size_t>;

RespValue text(std::string words) {
    return {.kind = Kind::text, .text = std::move(words)};
}

RespValue list(const std::vector<std::string>& items) {
    RespValue reply{.kind = Kind::list};
    for (const std::string& item : items) reply.items.push_back(text(item));
    return reply;
}

// The answer to SENTINEL MASTERS.
RespValue masters(const std::vector<std::string>& names) {
    RespValue reply{.kind = Kind::list};
    for (const std::string& name : names) {
        reply.items.push_back(list({"name", name, "ip", "127.0.0.1"}));
    }
    return reply;
}

RespValue message(const std::string& words, const std::string& channel = "+switch-master") {
    return list({"message", channel, words});
}

SentinelOrder::Time at(std::chrono::milliseconds time) {
    return SentinelOrder::Time(1h + time);
}

}  // namespace

TEST_CASE("sentinel: a master's address is a host and a port, or it is none") {
    CHECK(master_of(list({"127.0.0.1", "6379"})) == NodeAddress{"127.0.0.1", 6379});
    CHECK(master_of(list({"::1", "1"}))->to_string() == "[::1]:1");
    CHECK(master_of(list({"redis.internal", "65535"}))->to_string() == "redis.internal:65535");
    for (const auto& bad :
         {list({}), list({"127.0.0.1"}), list({"a", "1", "2"}), list({"", "1"}), list({"a", "0"}),
          list({"a", "65536"}), list({"a", "-1"}), list({"a", "1x"}), list({"a", ""}),
          list({"a b", "1"}), list({"a\r\n", "1"}), list({std::string(254, 'a'), "1"}),
          text("127.0.0.1"), RespValue{}}) {
        CHECK_FALSE(master_of(bad));
    }
}

TEST_CASE("sentinel: a switch is taken from its message, if it is about this master") {
    const auto moved = switch_of(message("m 10.0.0.1 6379 10.0.0.2 6380"), "m");
    CHECK(moved == NodeAddress{"10.0.0.2", 6380});
    for (const auto& other :
         {message("other 10.0.0.1 6379 10.0.0.2 6380"), message("m 10.0.0.1 6379 10.0.0.2"),
          message("m 10.0.0.1 6379 10.0.0.2 6380 "), message("m 10.0.0.1 6379 10.0.0.2 6380 x"),
          message("m 10.0.0.1 6379 10.0.0.2 x"), message("m  10.0.0.1 6379 10.0.0.2 6380"),
          message(""), message("m"), message("m 10.0.0.1 6379 10.0.0.2 6380", "+sdown"),
          list({"pong", ""}), list({"subscribe", "+switch-master", "1"}), RespValue{}}) {
        CHECK_FALSE(switch_of(other, "m"));
    }
}

TEST_CASE("sentinel: a wrong name of the master is answered with the right ones") {
    CHECK(unknown_master("mymastr", masters({"mymaster"})) ==
          "it knows no master `mymastr`: it watches `mymaster`");
    CHECK(unknown_master("m", masters({"a", "b"})) ==
          "it knows no master `m`: it watches `a`, `b`");
    CHECK(unknown_master("m", masters({})) == "it knows no master `m`: it watches none");
    CHECK(unknown_master("m", RespValue{}) == "it knows no master `m`");
    std::vector<std::string> many;
    for (int i = 0; i < 50; ++i) many.push_back("m" + std::to_string(i));
    CHECK(unknown_master("m", masters(many)) ==
          "it knows no master `m`: it watches `m0`, `m1`, `m2`, `m3`, `m4` and others");
}

TEST_CASE("sentinel: they are asked in turn, those that lately failed after the others") {
    SentinelOrder order(3, 7);
    CHECK(order.next(at(0ms)) == Order{1, 2, 0});
    CHECK(order.next(at(0ms)) == Order{2, 0, 1});
    order.failed(0, at(0ms));
    CHECK(order.next(at(1ms)) == Order{1, 2, 0});
    CHECK(order.next(at(1ms)) == Order{2, 1, 0});
    order.failed(1, at(1ms));
    order.failed(2, at(1ms));
    CHECK(order.next(at(2ms)).size() == 3);
    order.answered(1);
    CHECK(order.next(at(2ms)).front() == 1);
    CHECK(order.next(at(20s)).size() == 3);
    CHECK(order.next(at(20s)) == Order{0, 1, 2});
}

// Clients that follow a master: sentinels and servers that answer and do what the test wants.

namespace {

constexpr Script kScript{"count", "0123456789012345678901234567890123456789", "return 1"};

// Records what became of it.
struct Asker final : Request {
    void append_command(std::string& out) override {
        ++written;
        append_resp({"EVALSHA", kScript.sha1, "0"}, out);
    }
    const Script* script() const override { return &kScript; }
    void on_reply(const Reply& reply) override {
        ++told;
        text = reply.text;
    }
    void on_failure(Failure why) override {
        ++told;
        failure = why;
    }

    int written = 0;
    int told = 0;
    std::string text;
    std::optional<Failure> failure;
};

std::string role(std::string_view name) {
    return "*3\r\n$" + std::to_string(name.size()) + "\r\n" + std::string(name) +
           "\r\n:0\r\n*0\r\n";
}

// One of the two servers, with its role.
struct Server {
    Server(asio::io_context& io, std::string own_name) : redis(io), name(std::move(own_name)) {
        redis.evalsha = [this](const Words&) { return "+" + name + "\r\n"; };
        redis.other = [this](const Words& words) {
            return words.front() == "ROLE" ? role(is_master ? "master" : "slave") : "+OK\r\n";
        };
    }

    FakeRedis redis;
    std::string name;
    bool is_master = true;
};

struct Rig {
    explicit Rig(const std::function<void(ClientOptions&, SentinelOptions&)>& change = {}) {
        sentinel.master_port = other_sentinel.master_port = a.redis.port();
        sentinels.master = "mymaster";
        sentinels.nodes = {sentinel.node(), other_sentinel.node()};
        options.timeout = 5s;
        options.probe_every = 20ms;
        options.scripts = {&kScript};
        if (change) change(options, sentinels);
    }
    ~Rig() {
        if (client) client->stop();
        if (client) CHECK(until([&] { return ended; }));
        if (options.master_watch && follower) options.master_watch->leave(*follower);
    }

    void run() {
        options.master_watch = std::make_shared<MasterWatch>(sentinels);
        follower =
            options.master_watch->follow(io.get_executor(), [this](const MasterWatch::News& news) {
                if (news.is_switch) ++announcements;
            });
        client = std::make_shared<Client>(io.get_executor(), options,
                                          [this](bool up, std::string_view reason) {
                                              states.push_back(up);
                                              reasons.emplace_back(reason);
                                          });
        spawn(io.get_executor(), Client::run(client),
              [this](const std::exception_ptr&) { ended = true; });
    }
    // Up to an answer of `a`, with a subscription, and until the watch has announced `a`. The
    // sentinels are asked four times: once each at the start, once for the client, and once for
    // what came before the subscription.
    void connect() {
        run();
        CHECK(ask().text == "a");
        CHECK(until([&] { return subscribers() == 1; }));
        CHECK(until([&] { return sentinel.asked + other_sentinel.asked == 4; }));
        CHECK(until([&] { return announcements == 1; }));
    }
    template <class Done>
    bool until(Done done) {
        return run_until(io, done);
    }
    void pass(milliseconds time) {
        run_until(
            io, [] { return false; }, time);
    }
    Asker& send() {
        Asker& asker = askers.emplace_back();
        refused = client->send(asker);
        return asker;
    }
    Asker& ask() {
        Asker& asker = send();
        CHECK(refused == std::nullopt);
        CHECK(until([&] { return asker.told != 0; }));
        return asker;
    }
    // Sends commands until a server answers one that was not refused.
    std::string next_answer() {
        std::string text;
        send();
        CHECK(until([&] {
            if (!refused && askers.back().told == 0) return false;
            if (!refused) text = askers.back().text;
            if (text.empty()) send();
            return !text.empty();
        }));
        return text;
    }
    std::size_t subscribers() const {
        return sentinel.subscribers() + other_sentinel.subscribers();
    }
    FakeSentinel& subscribed() { return sentinel.subscribers() != 0 ? sentinel : other_sentinel; }
    // Announces to all that `server` is the master.
    void move_to(const Server& server) {
        FakeSentinel& first = subscribed();
        (&first == &sentinel ? other_sentinel : sentinel).master_port = server.redis.port();
        first.switch_to(server.redis.port());
    }
    void try_once() {
        options.master_watch = std::make_shared<MasterWatch>(sentinels);
        std::optional<bool> done;
        std::thread other([&] {
            fault = Client::try_once(options, 3s);
            asio::post(io, [&] { done = true; });
        });
        CHECK(until([&] { return done.has_value(); }));
        other.join();
    }

    asio::io_context io;
    Server a{io, "a"};
    Server b{io, "b"};
    FakeSentinel sentinel{io};
    FakeSentinel other_sentinel{io};
    SentinelOptions sentinels;
    ClientOptions options;
    std::shared_ptr<Client> client;
    std::vector<bool> states;
    std::vector<std::string> reasons;
    std::deque<Asker> askers;
    std::optional<Failure> refused;
    std::optional<RedisConnectFault> fault;
    std::optional<int> follower;  // gets what the client gets, right before it
    int announcements = 0;
    bool ended = false;
};

}  // namespace

TEST_CASE("master: it is where a sentinel says, and asked for its role before anything is sent") {
    Rig rig;
    rig.connect();
    CHECK(rig.a.redis.count("ROLE") == 1);
    REQUIRE(rig.a.redis.seen.size() >= 2);
    CHECK(rig.a.redis.seen[0].front() == "ROLE");
    CHECK(rig.b.redis.connections == 0);
    CHECK(rig.states.empty());
}

TEST_CASE("master: a replica serves no decision, though a sentinel says that it is the master") {
    Rig rig;
    rig.a.is_master = false;
    rig.run();
    CHECK(rig.until([&] { return rig.states == std::vector<bool>{false}; }));
    CHECK(rig.reasons.front().find("127.0.0.1:" + std::to_string(rig.a.redis.port())) !=
          std::string::npos);
    CHECK(rig.reasons.front().find("its role is `slave`") != std::string::npos);
    CHECK(rig.a.redis.count("EVALSHA") == 0);
    CHECK(rig.a.redis.count("SCRIPT") == 0);
    // Promoted, it is taken.
    rig.a.is_master = true;
    CHECK(rig.next_answer() == "a");
    CHECK(rig.states == std::vector<bool>{false, true});
}

TEST_CASE("master: +switch-master is followed, and waiting commands go to the new one, once") {
    Rig rig;
    rig.connect();
    rig.a.redis.evalsha = [](const Words&) { return ""; };
    Asker& lost = rig.send();
    CHECK(rig.until([&] { return rig.a.redis.count("EVALSHA") == 2; }));
    rig.move_to(rig.b);
    CHECK(rig.until([&] { return lost.told != 0; }));
    CHECK(lost.failure == Failure::disconnected);
    CHECK(lost.written == 1);
    Asker& waiting = rig.ask();
    CHECK(waiting.text == "b");
    CHECK(waiting.written == 1);
    CHECK(rig.b.redis.seen.front().front() == "ROLE");
    CHECK(lost.told == 1);
    CHECK(rig.states.empty());  // the client never saw it down
}

TEST_CASE("master: the switch of another master, and one to where it is, change nothing") {
    Rig rig;
    rig.connect();
    rig.subscribed().switch_to(rig.a.redis.port());
    rig.subscribed().say_to_subscribers(
        "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$27\r\nother 10.0.0.1 1 10.0.0.2 2\r\n");
    rig.pass(100ms);
    CHECK(rig.ask().text == "a");
    CHECK(rig.a.redis.connections == 1);
}

TEST_CASE("master: READONLY fails the request once, and the sentinels are asked at once") {
    Rig rig;
    rig.connect();
    const int asked = rig.sentinel.asked + rig.other_sentinel.asked;
    rig.a.is_master = false;
    rig.a.redis.evalsha = [](const Words&) { return "-READONLY replica\r\n"; };
    rig.sentinel.master_port = rig.other_sentinel.master_port = rig.b.redis.port();
    Asker& refused = rig.ask();
    CHECK(refused.failure == Failure::not_ready);
    CHECK(rig.ask().text == "b");
    CHECK(refused.told == 1);
    CHECK(refused.written == 1);
    CHECK(rig.sentinel.asked + rig.other_sentinel.asked == asked + 1);
    CHECK(rig.states.empty());
}

TEST_CASE("master: one that became a replica without an announcement is noticed by its role") {
    Rig rig;
    rig.connect();
    rig.a.is_master = false;
    rig.sentinel.master_port = rig.other_sentinel.master_port = rig.b.redis.port();
    CHECK(rig.until([&] { return rig.b.redis.count("ROLE") != 0; }));
    CHECK(rig.ask().text == "b");
}

TEST_CASE("master: a lost connection is made again where the sentinels say then") {
    Rig rig;
    rig.connect();
    rig.sentinel.master_port = rig.other_sentinel.master_port = rig.b.redis.port();
    rig.a.redis.refuse();
    CHECK(rig.next_answer() == "b");
}

TEST_CASE("master: an announced switch ends the wait for a silent server") {
    Rig rig([](ClientOptions& options, SentinelOptions&) { options.timeout = 100ms; });
    rig.connect();
    rig.a.redis.evalsha = rig.a.redis.other = [](const Words&) { return ""; };
    rig.a.redis.hang_up();
    CHECK(rig.until([&] { return rig.a.redis.connections == 2; }));
    const auto before = std::chrono::steady_clock::now();
    rig.move_to(rig.b);
    CHECK(rig.next_answer() == "b");
    // A handshake has a second.
    CHECK(std::chrono::steady_clock::now() - before < 600ms);
}

TEST_CASE("master: a client that waits for a silent server goes on asking where the master is") {
    Rig rig;
    rig.connect();
    rig.a.redis.evalsha = rig.a.redis.other = [](const Words&) { return ""; };
    rig.a.redis.hang_up();
    CHECK(rig.until([&] { return rig.a.redis.connections == 2; }));
    const auto before = std::chrono::steady_clock::now();
    // Without a message to the subscribers.
    rig.sentinel.master_port = rig.other_sentinel.master_port = rig.b.redis.port();
    CHECK(rig.until([&] { return rig.b.redis.count("ROLE") != 0; }));
    CHECK(rig.ask().text == "b");
    CHECK(std::chrono::steady_clock::now() - before < 900ms);
}

TEST_CASE(
    "master: sentinels that disagree do not move us from a server that says it is the master") {
    Rig rig;
    rig.connect();
    (&rig.subscribed() == &rig.sentinel ? rig.other_sentinel : rig.sentinel).master_port =
        rig.b.redis.port();
    rig.b.is_master = false;
    rig.pass(1'200ms);
    CHECK(rig.ask().text == "a");
    CHECK(rig.a.redis.connections == 1);
    CHECK(rig.b.redis.connections == 0);
    // A client that asks anew may get the wrong address, and finds the right one all the same.
    rig.a.redis.hang_up();
    CHECK(rig.next_answer() == "a");
    CHECK(rig.b.redis.count("EVALSHA") == 0);
}

TEST_CASE("master: an announced switch ends a pause between attempts") {
    Rig rig([](ClientOptions& options, SentinelOptions&) { options.probe_every = 60s; });
    rig.connect();
    rig.a.redis.refuse();
    // The pauses are long by now.
    CHECK(rig.until([&] { return rig.states == std::vector<bool>{false}; }));
    rig.pass(500ms);
    const auto before = std::chrono::steady_clock::now();
    rig.move_to(rig.b);
    CHECK(rig.next_answer() == "b");
    CHECK(std::chrono::steady_clock::now() - before < 600ms);
    CHECK(rig.states == std::vector<bool>{false, true});
}

TEST_CASE("master: a sentinel that is lost is replaced, and what it missed is found out") {
    Rig rig;
    rig.connect();
    FakeSentinel& first = rig.subscribed();
    FakeSentinel& second = &first == &rig.sentinel ? rig.other_sentinel : rig.sentinel;
    second.master_port = rig.b.redis.port();
    first.refuse();
    CHECK(rig.until([&] { return second.subscribers() == 1; }));
    CHECK(rig.until([&] { return rig.b.redis.count("ROLE") != 0; }));
    CHECK(rig.ask().text == "b");
}

TEST_CASE("master: a sentinel that falls silent is replaced") {
    Rig rig([](ClientOptions&, SentinelOptions& sentinels) { sentinels.timeout = 100ms; });
    rig.connect();
    FakeSentinel& first = rig.subscribed();
    FakeSentinel& second = &first == &rig.sentinel ? rig.other_sentinel : rig.sentinel;
    first.is_silent = true;
    CHECK(rig.until([&] { return second.subscribers() == 1; }));
    second.switch_to(rig.b.redis.port());
    CHECK(rig.until([&] { return rig.b.redis.count("ROLE") != 0; }));
    CHECK(rig.ask().text == "b");
}

TEST_CASE("master: without sentinels the master goes on being used; back, they are heard") {
    Rig rig;
    rig.connect();
    rig.sentinel.refuse();
    rig.other_sentinel.refuse();
    rig.pass(1'200ms);
    CHECK(rig.ask().text == "a");
    CHECK(rig.a.redis.connections == 1);
    CHECK(rig.states.empty());
    rig.sentinel.listen();
    CHECK(rig.until([&] { return rig.sentinel.subscribers() == 1; }));
    rig.sentinel.switch_to(rig.b.redis.port());
    CHECK(rig.until([&] { return rig.b.redis.count("ROLE") != 0; }));
    CHECK(rig.ask().text == "b");
}

TEST_CASE("master: no sentinel at first is down; it comes up by itself") {
    Rig rig;
    rig.sentinel.refuse();
    rig.other_sentinel.refuse();
    rig.run();
    CHECK(rig.until([&] { return rig.states == std::vector<bool>{false}; }));
    CHECK(rig.reasons.front().find("no sentinel knows where the master `mymaster` is") !=
          std::string::npos);
    CHECK(rig.reasons.front().find(rig.sentinel.node().to_string()) != std::string::npos);
    CHECK(rig.reasons.front().find(rig.other_sentinel.node().to_string()) != std::string::npos);
    rig.other_sentinel.listen();
    CHECK(rig.next_answer() == "a");
}

TEST_CASE("master: sentinels have a password of their own") {
    Rig rig([](ClientOptions& options, SentinelOptions& sentinels) {
        options.password = "of redis";
        sentinels.username = "tidegate";
        sentinels.password = "of sentinels";
    });
    rig.sentinel.password = rig.other_sentinel.password = "of sentinels";
    rig.connect();
    CHECK(rig.a.redis.seen[0] == Words{"AUTH", "of redis"});
}

TEST_CASE("master: at the start, an error says what is wrong and what would be right") {
    Rig rig;
    SUBCASE("all is well") {
        rig.try_once();
        CHECK(rig.fault == std::nullopt);
    }
    SUBCASE("a name that is not the master's") {
        rig.sentinels.master = "mymastr";
        rig.try_once();
        REQUIRE(rig.fault);
        CHECK(rig.fault->refused);
        CHECK(rig.fault->message.find("it knows no master `mymastr`: it watches `mymaster`") !=
              std::string::npos);
    }
    SUBCASE("a password that is missing") {
        rig.sentinel.password = rig.other_sentinel.password = "x";
        rig.try_once();
        REQUIRE(rig.fault);
        CHECK(rig.fault->refused);
        CHECK(rig.fault->message.find("NOAUTH") != std::string::npos);
    }
    SUBCASE("a password that is wrong, and is not told") {
        rig.sentinel.password = rig.other_sentinel.password = "x";
        rig.sentinels.password = "secret";
        rig.try_once();
        REQUIRE(rig.fault);
        CHECK(rig.fault->refused);
        CHECK(rig.fault->message.find("the password: `WRONGPASS") != std::string::npos);
        CHECK(rig.fault->message.find("secret") == std::string::npos);
    }
    SUBCASE("no sentinel there: one may come") {
        rig.sentinel.refuse();
        rig.other_sentinel.refuse();
        rig.try_once();
        REQUIRE(rig.fault);
        CHECK_FALSE(rig.fault->refused);
    }
    SUBCASE("one that knows is enough") {
        rig.sentinel.master_name = "another";
        rig.try_once();
        CHECK(rig.fault == std::nullopt);
    }
}

TEST_CASE("master: malformed answers of sentinels are ignored") {
    Rig rig;
    rig.connect();
    rig.subscribed().say_to_subscribers("SSH-2.0-OpenSSH\r\n");
    CHECK(
        rig.until([&] { return rig.sentinel.connections + rig.other_sentinel.connections >= 4; }));
    CHECK(rig.until([&] { return rig.subscribers() == 1; }));
    CHECK(rig.ask().text == "a");
    CHECK(rig.a.redis.connections == 1);
}

TEST_CASE("master: many clients that ask at once share one question") {
    Rig rig;
    rig.connect();
    const int asked = rig.sentinel.asked + rig.other_sentinel.asked;
    std::vector<std::shared_ptr<Client>> clients;
    int ended = 0;
    for (int i = 0; i < 50; ++i) {
        clients.push_back(
            std::make_shared<Client>(rig.io.get_executor(), rig.options, Client::OnState{}));
        spawn(rig.io.get_executor(), Client::run(clients.back()),
              [&](const std::exception_ptr&) { ++ended; });
    }
    CHECK(rig.until([&] { return rig.a.redis.connections >= 51; }));
    CHECK(rig.sentinel.asked + rig.other_sentinel.asked <= asked + 3);
    for (const auto& client : clients) client->stop();
    CHECK(rig.until([&] { return ended == 50; }));
}

}  // namespace tidegate::redis::sentinels_test

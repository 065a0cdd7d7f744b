// How a client finds its server, is greeted by it, loses it and comes back.
#include <unistd.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/local/stream_protocol.hpp>
#include <doctest/doctest.h>

#include "redis/client.hpp"
#include "unit/redis_client_rig.hpp"

namespace tidegate::redis::client_connection_test {
namespace {

using namespace std::chrono_literals;
using test::FakeRedis;
using test::run_until;
using test::Words;
using Rig = ClientRig;

// The fault of one attempt against a server on a thread of its own.
std::optional<RedisConnectFault> try_against(
    const std::function<std::string(const Words&)>& answer,
    const std::function<void(ClientOptions&)>& change = {}) {
    asio::io_context io;
    FakeRedis server(io);
    server.other = answer;
    ClientOptions options = options_for(server.port());
    if (change) change(options);
    std::thread thread([&] { io.run(); });
    auto fault = Client::try_once(options, 10s);
    io.stop();
    thread.join();
    return fault;
}

std::function<std::string(const Words&)> refusing(const std::string& command,
                                                  const std::string& error) {
    return [=](const Words& words) { return words[0] == command ? error : "+OK\r\n"; };
}

}  // namespace

TEST_CASE("client: a lost connection fails each command once; later ones wait for the next one") {
    Rig rig;
    rig.server.evalsha = [](const Words& words) { return "+" + words[3] + "\r\n"; };
    rig.connect();
    rig.server.evalsha = [](const Words&) { return ""; };
    Asker& lost = rig.send("lost");
    CHECK(rig.until([&] { return rig.server.count("EVALSHA") == 1; }));
    rig.server.hang_up();
    CHECK(rig.until([&] { return lost.told == 1; }));
    CHECK(lost.failed(Failure::disconnected));
    rig.server.evalsha = [](const Words& words) { return "+" + words[3] + "\r\n"; };
    Asker& waiting = rig.send("waiting");
    CHECK(rig.refused == std::nullopt);
    CHECK(rig.until([&] { return waiting.told == 1; }));
    CHECK(waiting.answered("waiting"));
    CHECK(lost.written == 1);
    CHECK(rig.server.connections == 2);
    CHECK(rig.states.empty());
}

TEST_CASE("client: a server that accepts connections only to close them soon counts as down") {
    Rig rig([](ClientOptions& options) {
        options.timeout = 60ms;
        options.probe_every = 200ms;
        options.breaker_failures = 1'000;
    });
    rig.connect();
    rig.server.evalsha = [&](const Words&) {
        rig.server.hang_up();
        return "";
    };
    CHECK(rig.until([&] {
        if (rig.askers.back().told == 0) return false;
        rig.send("x");
        return rig.refused == Failure::unavailable;
    }));
    rig.askers.pop_back();  // it was not sent
    CHECK(rig.askers.size() < 10);
    for (const Asker& asker : rig.askers) CHECK(asker.told == 1);
}

TEST_CASE("client: a healthy Redis whose connections are cut again and again is never down") {
    Rig rig([](ClientOptions& options) {
        options.timeout = 100ms;
        options.probe_every = 1s;
    });
    rig.connect();
    for (int i = 1; i <= Breaker::kReconnects; ++i) {
        rig.server.hang_up();
        CHECK(rig.until([&] { return rig.server.connections == i + 1; }));
        CHECK(rig.ask("x").answered("done"));
    }
    CHECK(rig.states.empty());
}

TEST_CASE("client: connections that bring an answer and are cut are made again in time") {
    Rig rig([](ClientOptions& options) {
        options.timeout = 200ms;
        options.probe_every = 5s;
    });
    rig.connect();
    // More than are made again at once: these wait for the shortest pause, which does not grow.
    for (int i = 0; i < 3 * Breaker::kReconnects; ++i) {
        rig.server.hang_up();
        CHECK(rig.until([&] { return rig.server.connections == i + 2; }));
        CHECK(rig.ask("x").answered("done"));
    }
    CHECK(rig.states.empty());
}

TEST_CASE("client: a server that closes every connection after the handshake is not hammered") {
    Rig rig([](ClientOptions& options) {
        options.timeout = 100ms;
        options.probe_every = 60s;
    });
    rig.server.other = [&](const Words&) {
        rig.server.say("+OK\r\n");
        rig.server.hang_up();
        return "";
    };
    rig.run();
    CHECK(rig.until([&] { return rig.is_down(); }));
    // One, those that are made again at once, and two or three after pauses of 50 and 100 ms.
    CHECK(rig.server.connections <= 1 + Breaker::kReconnects + 3);
}

// The error of a server that was made a replica behind the same address.
std::string read_only(const Words&) {
    return "-READONLY You can't write against a read only replica.\r\n";
}

TEST_CASE("client: a replica is left, and the address tried anew; nothing is sent twice") {
    for (const std::string error :
         {"-READONLY You can't write against a read only replica.\r\n",
          "-ERR Error running script: -READONLY You can't write against a read only replica.\r\n",
          "-MASTERDOWN Link with MASTER is down\r\n"}) {
        CAPTURE(error);
        Rig rig;
        rig.connect();
        // The second connection leads to another server.
        rig.server.evalsha = [&](const Words&) {
            return rig.server.connections == 1 ? error : "+done\r\n";
        };
        for (const char* name : {"a", "b", "c"}) rig.send(name);
        CHECK(rig.until([&] { return rig.askers.back().told == 1; }));
        for (const Asker& asker : rig.askers) CHECK(asker.written == 1);
        CHECK(rig.askers[1].failed(Failure::not_ready));
        CHECK(rig.ask("d").answered("done"));
        CHECK(rig.server.connections == 2);
        CHECK(rig.states.empty());
    }
}

TEST_CASE("client: as long as an address leads to a replica, Redis is down; reported once") {
    Rig rig;
    rig.connect();
    bool is_replica = true;
    rig.server.evalsha = read_only;
    rig.server.other = [&](const Words& words) -> std::string {
        return is_replica && words[0] == "PEXPIRE" ? read_only(words) : "+OK\r\n";
    };
    CHECK(rig.ask("a").failed(Failure::not_ready));
    CHECK(rig.until([&] { return rig.is_down() && rig.server.connections >= 4; }));
    CHECK(rig.first_reason().find("READONLY") != std::string::npos);
    rig.send("b");
    CHECK(rig.refused == Failure::unavailable);
    CHECK(rig.server.count("EVALSHA") == 1);
    is_replica = false;
    rig.server.evalsha = [](const Words&) { return "+done\r\n"; };
    CHECK(rig.until([&] { return !rig.is_down(); }));
    CHECK(rig.ask("c").answered("done"));
    CHECK(rig.states == std::vector<bool>{false, true});
}

TEST_CASE("client: a user that may not PEXPIRE can connect after a replica all the same") {
    Rig rig;
    rig.connect();
    rig.server.evalsha = read_only;
    rig.server.other = refusing("PEXPIRE", "-NOPERM no permission for pexpire\r\n");
    CHECK(rig.ask("a").failed(Failure::not_ready));
    CHECK(rig.until([&] { return rig.server.count("PEXPIRE") == 1; }));
    rig.server.evalsha = [](const Words&) { return "+done\r\n"; };
    CHECK(rig.ask("b").answered("done"));
    // And a connection that ends in another way is not asked.
    rig.server.hang_up();
    CHECK(rig.until([&] { return rig.server.connections == 3; }));
    CHECK(rig.ask("c").answered("done"));
    CHECK(rig.server.count("PEXPIRE") == 1);
}

TEST_CASE("client: a node of a cluster that takes no writes is not left") {
    Rig rig([](ClientOptions& options) { options.in_cluster = true; });
    rig.connect();
    rig.server.evalsha = read_only;
    CHECK(rig.ask("a").failed(Failure::not_ready));
    CHECK(rig.ask("b").failed(Failure::not_ready));
    CHECK(rig.server.connections == 1);
}

TEST_CASE("client: half a reply and then the end is a lost connection") {
    Rig rig;
    rig.connect();
    rig.server.evalsha = [](const Words&) { return "$100\r\nhalf"; };
    Asker& asker = rig.send("x");
    CHECK(rig.until([&] { return rig.server.count("EVALSHA") == 1; }));
    rig.server.hang_up();
    CHECK(rig.until([&] { return asker.told == 1; }));
    CHECK(asker.failed(Failure::disconnected));
}

TEST_CASE(
    "client: no server is down: refused at once, reported once, and it comes back by itself") {
    Rig rig;
    rig.server.refuse();
    Asker& early = rig.send("early");
    rig.run();
    CHECK(rig.until([&] { return rig.is_down(); }));
    CHECK(early.failed(Failure::unavailable));
    rig.send("x");
    CHECK(rig.refused == Failure::unavailable);
    CHECK(rig.askers.back().told == 0);
    CHECK(rig.askers.back().written == 0);
    REQUIRE(rig.reasons.size() == 1);
    CHECK(rig.first_reason().find("127.0.0.1:" + std::to_string(rig.server.port())) !=
          std::string::npos);
    CHECK(rig.first_reason().find("refused") != std::string::npos);
    rig.server.listen();
    CHECK(rig.until([&] { return !rig.is_down(); }));
    CHECK(rig.ask("y").answered("done"));
    CHECK(rig.states == std::vector<bool>{false, true});
}

TEST_CASE("client: unanswered commands in a row open the breaker, the next answer closes it") {
    Rig rig([](ClientOptions& options) {
        options.timeout = 30ms;
        options.breaker_failures = 3;
    });
    rig.connect();
    bool silent = true;
    const auto answer = [&](const Words&) { return silent ? "" : "+done\r\n"; };
    rig.server.evalsha = rig.server.other = answer;
    for (int i = 0; i < 3; ++i) {
        CHECK_FALSE(rig.is_down());
        CHECK(rig.ask("x").failed(Failure::timeout));
    }
    CHECK(rig.is_down());
    rig.send("x");
    CHECK(rig.refused == Failure::unavailable);
    silent = false;
    CHECK(rig.until([&] { return !rig.is_down(); }));
    CHECK(rig.ask("y").answered("done"));
    CHECK(rig.states == std::vector<bool>{false, true});
}

TEST_CASE("client: answers that always come too late open the breaker too") {
    Rig rig([](ClientOptions& options) {
        options.timeout = 30ms;
        options.breaker_failures = 3;
    });
    rig.connect();
    rig.server.evalsha = [](const Words&) { return ""; };
    for (int i = 0; i < 3; ++i) {
        CHECK(rig.ask("x").failed(Failure::timeout));
        rig.server.say("+late\r\n");
        const auto before = rig.server.by_read.size();
        rig.io.restart();
        while (rig.io.poll_one() != 0) {
        }
        CHECK(rig.server.by_read.size() == before);
    }
    CHECK(rig.until([&] { return rig.is_down(); }));
}

TEST_CASE("client: a Redis slower than a decision may take does not count as back") {
    Rig rig([](ClientOptions& options) {
        options.timeout = 20ms;
        options.breaker_failures = 1;
    });
    rig.connect();
    // Everything is answered, each answer 60 ms after its question.
    std::deque<asio::steady_timer> timers;
    rig.server.evalsha = rig.server.other = [&](const Words&) {
        auto& timer = timers.emplace_back(rig.io, 60ms);
        timer.async_wait([&, asked_on = rig.server.connections](const error_code& ec) {
            if (!ec && asked_on == rig.server.connections) rig.server.say("+slow\r\n");
        });
        return "";
    };
    CHECK(rig.ask("x").failed(Failure::timeout));
    CHECK(rig.until([&] { return rig.is_down(); }));
    const int before = rig.server.connections;
    CHECK(rig.until([&] { return rig.server.connections >= before + 3; }));
    CHECK(rig.states == std::vector<bool>{false});
    timers.clear();
    rig.server.evalsha = rig.server.other = [](const Words&) { return "+done\r\n"; };
    CHECK(rig.until([&] { return !rig.is_down(); }));
}

TEST_CASE("client: a handshake that hangs does not cost each command its deadline") {
    Rig rig([](ClientOptions& options) {
        options.timeout = 30ms;
        options.breaker_failures = 3;
    });
    rig.server.other = [](const Words&) { return ""; };
    rig.run();
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) {
        CHECK(rig.ask("x").failed(Failure::timeout));
        CHECK(rig.askers.back().written == 0);
    }
    rig.send("x");
    CHECK(rig.refused == Failure::unavailable);
    CHECK(std::chrono::steady_clock::now() - begun < 1s);
    rig.server.other = [](const Words&) { return "+OK\r\n"; };
    rig.server.say("+OK\r\n");  // and the handshake goes on from where it was
    CHECK(rig.until([&] { return !rig.is_down(); }));
    CHECK(rig.ask("y").answered("done"));
    CHECK(rig.server.connections == 1);
    CHECK(rig.states == std::vector<bool>{false, true});
}

TEST_CASE("client: an address that swallows connections is given up") {
    asio::io_context elsewhere;
    asio::ip::tcp::acceptor full(elsewhere, asio::ip::tcp::v4());
    full.bind({asio::ip::address_v4::loopback(), 0});
    full.listen(0);
    // A queue of none holds one; what comes after hangs.
    std::deque<asio::ip::tcp::socket> fillers;
    for (int i = 0; i < 3; ++i) {
        auto& filler = fillers.emplace_back(elsewhere);
        filler.async_connect(full.local_endpoint(), [](const error_code&) {});
    }
    elsewhere.poll();
    Rig rig([&](ClientOptions& options) {
        options.port = full.local_endpoint().port();
        options.timeout = 30ms;
        options.breaker_failures = 2;
    });
    rig.run();
    CHECK(rig.ask("x").failed(Failure::timeout));
    CHECK(rig.ask("y").failed(Failure::timeout));
    CHECK(rig.is_down());
    CHECK(rig.states == std::vector<bool>{false});
}

TEST_CASE("client: of the addresses of a name the first that answers is taken") {
    // On most machines `localhost` is ::1 first; the server is on 127.0.0.1 alone.
    Rig rig([](ClientOptions& options) { options.host = "localhost"; });
    rig.connect();
    CHECK(rig.states.empty());
}

TEST_CASE("client: a name that does not resolve is named") {
    Rig rig([](ClientOptions& options) { options.host = "no such name"; });
    rig.run();
    CHECK(rig.until([&] { return rig.is_down(); }));
    CHECK(rig.first_reason().find("no such name:") != std::string::npos);
    CHECK(rig.first_reason().find("cannot resolve") != std::string::npos);
}

TEST_CASE("client: a reply without a command ends the connection, not the program") {
    for (const std::string reply :
         {"+OK\r\n", ":1\r\n", "$1\r\nx\r\n", "*1\r\n:1\r\n", "$-1\r\n"}) {
        CAPTURE(reply);
        Rig rig;
        rig.connect();
        rig.server.say(reply);
        CHECK(rig.until([&] { return rig.server.connections == 2; }));
        CHECK(rig.ask("x").answered("done"));
    }
}

TEST_CASE("client: an answer out of protocol is a lost connection, reported once") {
    for (const std::string garbage :
         {"HTTP/1.1 400 Bad Request\r\n\r\n", "\r\n", "$abc\r\n", "*-7\r\n", "$-9\r\n"}) {
        CAPTURE(garbage);
        Rig rig;
        rig.connect();
        rig.server.evalsha = [&](const Words&) { return std::string(garbage); };
        CHECK(rig.ask("x").failed(Failure::disconnected));
        rig.server.evalsha = [](const Words&) { return "+done\r\n"; };
        CHECK(rig.ask("y").answered("done"));
    }
}

TEST_CASE("client: an answer without an end is cut off") {
    Rig rig;
    rig.connect();
    rig.server.evalsha = [](const Words&) { return "$500000000\r\n" + std::string(2 << 20, 'x'); };
    CHECK(rig.ask("x").failed(Failure::disconnected));
    rig.server.evalsha = [](const Words&) { return "+done\r\n"; };
    CHECK(rig.ask("y").answered("done"));
}

TEST_CASE("client: garbage behind the last answer of the handshake is no connection") {
    Rig rig;
    rig.server.other = [](const Words& words) {
        return words[0] == "SCRIPT" ? "+OK\r\nwhat?\r\n" : "";
    };
    rig.run();
    CHECK(rig.until([&] { return rig.is_down(); }));
    CHECK(rig.first_reason().find("rotocol error") != std::string::npos);
    rig.send("x");
    CHECK(rig.refused == Failure::unavailable);
}

TEST_CASE("client: the fault of a server that is no Redis quotes its answer") {
    const auto fault = try_against([](const Words&) { return "HTTP/1.1 400 Bad Request\r\n\r\n"; });
    REQUIRE(fault);
    CHECK_FALSE(fault->refused);
    CHECK(fault->message.find("rotocol error") != std::string::npos);
}

TEST_CASE("client: a step of the handshake that is refused is named, and no secret shown") {
    const auto fault_of = [](const std::string& command, const std::string& error) {
        return try_against(refusing(command, error), [](ClientOptions& options) {
            options.username = "proxy";
            options.password = "s3cret";
            options.database = 7;
        });
    };
    const auto password = fault_of("AUTH", "-WRONGPASS invalid username-password pair\r\n");
    REQUIRE(password);
    CHECK(password->refused);
    CHECK(password->message.find("the password was refused: WRONGPASS") != std::string::npos);
    const auto echoed = fault_of("AUTH",
                                 "-ERR unknown command `AUTH`, with args beginning with: `proxy`, "
                                 "`s3cret`, \r\n");
    REQUIRE(echoed);
    CHECK(echoed->message.find("unknown command") != std::string::npos);
    CHECK(echoed->message.find("s3cret") == std::string::npos);
    const auto database = fault_of("SELECT", "-ERR DB index is out of range\r\n");
    REQUIRE(database);
    CHECK(database->refused);
    CHECK(database->message.find("database 7 was refused") != std::string::npos);
    const auto script = fault_of("SCRIPT", "-ERR Error compiling script\r\n");
    REQUIRE(script);
    CHECK(script->refused);
    CHECK(script->message.find("the script count was refused") != std::string::npos);
    CHECK_FALSE(fault_of("NOTHING", "").has_value());
}

TEST_CASE("client: an attempt ends at its deadline, whatever it waits for") {
    asio::io_context io;
    FakeRedis silent(io);  // accepted by the system; the loop does not run
    const auto begun = std::chrono::steady_clock::now();
    const auto fault = Client::try_once(options_for(silent.port()), 50ms);
    CHECK(std::chrono::steady_clock::now() - begun < 500ms);
    REQUIRE(fault);
    CHECK_FALSE(fault->refused);
    CHECK(fault->message.find("no answer") != std::string::npos);
}

TEST_CASE("client: a server that is not ready yet is away and does not refuse us") {
    for (const std::string error :
         {"-LOADING Redis is loading the dataset in memory\r\n", "-BUSY Redis is busy\r\n"}) {
        const auto fault = try_against(refusing("SCRIPT", error));
        REQUIRE(fault);
        CHECK_FALSE(fault->refused);
    }
}

TEST_CASE("client: a user without the right to PING can connect") {
    Rig rig;
    rig.server.refuse();
    rig.server.other = refusing("PING", "-NOPERM no permission for ping\r\n");
    rig.run();
    CHECK(rig.until([&] { return rig.is_down(); }));
    rig.server.listen();
    CHECK(rig.until([&] { return !rig.is_down(); }));
    CHECK(rig.server.count("PING") == 1);
}

TEST_CASE("client: the handshake is authentication, database, scripts, in this order") {
    Rig rig([](ClientOptions& options) {
        options.password = "s3cret";
        options.database = 3;
    });
    rig.run();
    CHECK(rig.ask("x").answered("done"));
    REQUIRE(rig.server.seen.size() == 4);
    CHECK(rig.server.seen[0] == Words{"AUTH", "s3cret"});
    CHECK(rig.server.seen[1] == Words{"SELECT", "3"});
    CHECK(rig.server.seen[2] == Words{"SCRIPT", "LOAD", "return 1"});
    CHECK(rig.server.seen[3].front() == "EVALSHA");
}

TEST_CASE("client: a Unix socket works, and a missing one is named") {
    asio::io_context io;
    const auto folder =
        std::filesystem::temp_directory_path() / ("tidegate-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    const std::string path = folder / "redis.sock";
    ClientOptions options;
    options.unix_path = path;
    const auto absent = Client::try_once(options, 10s);
    REQUIRE(absent);
    CHECK_FALSE(absent->refused);
    CHECK(absent->message.find("unix:" + path) != std::string::npos);

    asio::local::stream_protocol::acceptor acceptor(io, {path});
    CHECK_FALSE(Client::try_once(options, 10s).has_value());
    std::filesystem::remove_all(folder);
}

}  // namespace tidegate::redis::client_connection_test

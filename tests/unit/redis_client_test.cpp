#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "redis/client.hpp"
#include "telemetry/error_log.hpp"
#include "unit/redis_client_rig.hpp"

namespace tidegate::redis::client_test {
namespace {

using namespace std::chrono_literals;
using test::Words;
using Rig = ClientRig;

// What a decision may take beyond its timeout.
constexpr milliseconds kGrace{50};

// How many lines with `text` in them `act` logs.
template <class Act>
long lines_logged(std::string_view text, Act&& act) {
    FILE* const file = std::tmpfile();
    REQUIRE(file != nullptr);
    telemetry::flush_log();
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    act();
    telemetry::flush_log();
    dup2(saved, STDERR_FILENO);
    close(saved);
    std::rewind(file);
    long lines = 0;
    char line[4096];
    while (std::fgets(line, sizeof line, file) != nullptr) {
        lines += std::string_view(line).find(text) != std::string_view::npos ? 1 : 0;
    }
    std::fclose(file);
    return lines;
}

}  // namespace

TEST_CASE("client: commands of one turn leave together and each gets its own reply") {
    Rig rig;
    rig.server.evalsha = [](const Words& words) { return "+" + words[3] + "\r\n"; };
    rig.connect();
    for (const char* name : {"a", "b", "c"}) rig.send(name);
    CHECK(rig.until([&] { return rig.askers.back().told == 1; }));
    CHECK(rig.server.by_read == std::vector<std::size_t>{3});
    CHECK(rig.askers[1].answered("a"));
    CHECK(rig.askers[2].answered("b"));
    CHECK(rig.askers[3].answered("c"));
    CHECK(rig.states.empty());  // the client never saw it down
}

TEST_CASE("client: a command that may wait leaves with the next one, in its order") {
    Rig rig;
    rig.server.evalsha = [](const Words& words) { return "+" + words[3] + "\r\n"; };
    rig.connect();
    Asker& later = rig.askers.emplace_back("later");
    CHECK(rig.client->send_with_next(later) == std::nullopt);
    CHECK(later.written == 0);
    rig.send("next");
    CHECK(rig.until([&] { return rig.askers.back().told == 1; }));
    CHECK(rig.server.by_read == std::vector<std::size_t>{2});
    CHECK(later.answered("later"));
}

TEST_CASE("client: a command that may wait leaves soon without another, or when the client stops") {
    Rig rig;
    rig.connect();
    Asker& later = rig.askers.emplace_back("later");
    CHECK(rig.client->send_with_next(later) == std::nullopt);
    CHECK(rig.until([&] { return later.told == 1; }));
    CHECK_FALSE(later.failure);
    Asker& last = rig.askers.emplace_back("last");
    CHECK(rig.client->send_with_next(last) == std::nullopt);
    rig.client->stop();
    CHECK(last.written == 1);
    CHECK(rig.until(
        [&] { return !rig.server.seen.empty() && rig.server.seen.back().back() == "last"; }));
}

TEST_CASE("client: with a short timeout no command waits for another") {
    Rig rig([](ClientOptions& options) { options.timeout = 39ms; });
    rig.run();
    REQUIRE(rig.until([&] { return rig.client->is_connected(); }));
    Asker& later = rig.askers.emplace_back("later");
    CHECK(rig.client->send_with_next(later) == std::nullopt);
    CHECK(rig.until([&] { return later.written == 1; }));
}

TEST_CASE("client: a coroutine that a reply wakes goes on in the same turn") {
    struct Waking final : Request {
        void append_command(std::string& out) override { append_resp({"EVALSHA", "x", "0"}, out); }
        const Script* script() const override { return nullptr; }
        void on_reply(const Reply&) override {
            wakeup->wake_later();
            woken_in_reply = woken;
        }
        void on_failure(Failure) override {}

        std::optional<Wakeup> wakeup;
        bool woken = false;
        bool woken_in_reply = true;
    } waking;
    Rig rig;
    waking.wakeup.emplace(rig.io.get_executor());
    rig.connect();
    const auto sleep = [](Waking& mine) -> Task<> {
        co_await mine.wakeup->wait();
        mine.woken = true;
    };
    spawn_vital(rig.io.get_executor(), sleep(waking));
    CHECK(rig.client->send(waking) == std::nullopt);
    // Of the loop's events one at a time: that which tells of the reply is that which wakes.
    CHECK(rig.until([&] { return !waking.woken_in_reply; }));
    CHECK(waking.woken);
}

TEST_CASE("client: every kind of reply comes as a plain value") {
    Rig rig;
    rig.connect();
    const auto kind_of = [&](const std::string& reply) {
        rig.server.evalsha = [=](const Words&) { return reply; };
        return rig.ask("x").kind;
    };
    CHECK(kind_of("$3\r\na\r\n\r\n") == Reply::Kind::string);
    CHECK(rig.askers.back().text == "a\r\n");
    CHECK(kind_of("$0\r\n\r\n") == Reply::Kind::string);
    CHECK(kind_of(":-7\r\n") == Reply::Kind::integer);
    CHECK(kind_of("$-1\r\n") == Reply::Kind::nil);
    CHECK(kind_of("*2\r\n$1\r\na\r\n*1\r\n:1\r\n") == Reply::Kind::array);
    CHECK(rig.askers.back().text == "a");
    CHECK(kind_of("*0\r\n") == Reply::Kind::array);
    CHECK(rig.askers.back().text.empty());
    CHECK(kind_of("+still in step\r\n") == Reply::Kind::string);
    CHECK(rig.askers.back().text == "still in step");
}

TEST_CASE("client: a reply in pieces is put together") {
    Rig rig;
    rig.connect();
    rig.server.evalsha = [](const Words&) { return ""; };
    Asker& asker = rig.send("x");
    CHECK(rig.until([&] { return rig.server.count("EVALSHA") == 1; }));
    const std::string reply = "$5\r\nhello\r\n";
    for (const char& byte : reply) {
        CHECK(asker.told == 0);
        rig.server.say({&byte, 1});
        rig.io.restart();
        rig.io.poll();
    }
    CHECK(rig.until([&] { return asker.told == 1; }));
    CHECK(asker.answered("hello"));
}

TEST_CASE(
    "client: a command out of time fails in time, is never sent again, its reply is ignored") {
    Rig rig([](ClientOptions& options) { options.timeout = 100ms; });
    rig.connect();
    rig.server.evalsha = [](const Words&) { return ""; };
    const auto asked = std::chrono::steady_clock::now();
    Asker& late = rig.ask("late");
    CHECK(late.failed(Failure::timeout));
    CHECK(late.told_at - asked >= 100ms);
    CHECK(late.told_at - asked <= 100ms + kGrace);
    Asker& next = rig.send("next");
    CHECK(rig.until([&] { return rig.server.count("EVALSHA") == 2; }));
    rig.server.say("+for late\r\n+for next\r\n");
    CHECK(rig.until([&] { return next.told == 1; }));
    CHECK(next.answered("for next"));
    CHECK(late.told == 1);
    CHECK(late.written == 1);
    CHECK(rig.server.seen.size() == 2);
}

TEST_CASE("client: a script that Redis forgot is loaded and the command sent once more") {
    Rig rig;
    rig.connect();
    rig.forget_script();
    Asker& asker = rig.ask("x");
    CHECK(asker.answered("counted"));
    CHECK(asker.written == 2);
    CHECK(rig.server.count("SCRIPT") == 1);
    CHECK(rig.server.count("EVALSHA") == 2);
}

TEST_CASE(
    "client: a script used for the first time is loaded, and logged only when Redis forgot it") {
    Rig rig([](ClientOptions& options) { options.scripts.clear(); });
    rig.connect();
    rig.forget_script();
    CHECK(lines_logged("loading it again", [&] { CHECK(rig.ask("x").answered("counted")); }) == 0);
    CHECK(rig.server.count("SCRIPT") == 1);
    rig.forget_script();
    CHECK(lines_logged("loading it again", [&] { CHECK(rig.ask("y").answered("counted")); }) == 1);
    CHECK(rig.server.count("SCRIPT") == 2);
}

TEST_CASE(
    "client: a script that Redis forgets again and again is loaded as long as there is time") {
    Rig rig;
    rig.connect();
    int calls = 0;
    rig.server.evalsha = [&](const Words&) {
        return ++calls < 6 ? "-NOSCRIPT No matching script.\r\n" : "+counted\r\n";
    };
    CHECK(rig.ask("x").answered("counted"));
    CHECK(rig.server.count("EVALSHA") == 6);
    CHECK(rig.server.count("SCRIPT") == 5);
}

TEST_CASE("client: a script that stays unknown is sent again with pauses, until the timeout") {
    Rig rig([](ClientOptions& options) { options.timeout = 100ms; });
    rig.connect();
    rig.server.evalsha = [](const Words&) { return "-NOSCRIPT No matching script.\r\n"; };
    CHECK(rig.ask("x").failed(Failure::timeout));
    CHECK(rig.server.count("EVALSHA") > 2);
    CHECK(rig.server.count("EVALSHA") <= 15);
    CHECK(rig.client->is_up());
}

TEST_CASE("client: a script that Redis has no memory for is refused, and tried again by the next") {
    Rig rig;
    rig.connect();
    rig.forget_script();
    const auto loads = rig.server.other;
    rig.server.other = [](const Words& words) {
        return words[0] == "SCRIPT" ? "-OOM command not allowed when used memory\r\n" : "+OK\r\n";
    };
    CHECK(lines_logged("refused the script count: OOM", [&] {
              Asker& asker = rig.ask("x");
              CHECK(asker.failed(Failure::not_ready));
              CHECK(asker.written == 2);
          }) == 1);
    rig.server.other = loads;
    CHECK(rig.ask("y").answered("counted"));
}

TEST_CASE("client: many commands whose script was forgotten load it once and say so once") {
    Rig rig;
    rig.connect();
    bool known = false;
    rig.server.other = [&](const Words&) { return known = true, "+OK\r\n"; };
    rig.server.evalsha = [&](const Words& words) {
        return known ? "+" + words[3] + "\r\n" : "-NOSCRIPT No matching script.\r\n";
    };
    CHECK(lines_logged("loading it again", [&] {
              for (int i = 0; i < 500; ++i) rig.send(std::to_string(i));
              CHECK(rig.until([&] {
                  return std::all_of(rig.askers.begin(), rig.askers.end(),
                                     [](const Asker& one) { return one.told != 0; });
              }));
          }) == 1);
    for (int i = 0; i < 500; ++i) {
        CHECK(rig.askers[static_cast<std::size_t>(i) + 1].answered(std::to_string(i)));
    }
    CHECK(rig.server.count("SCRIPT") == 1);
    CHECK(rig.server.count("EVALSHA") == 1000);
}

TEST_CASE("client: errors are refusals, nothing is sent again and the log is not flooded") {
    Rig rig;
    rig.connect();
    const std::vector<std::pair<std::string, Failure>> errors{
        {"-READONLY You can't write against a read only replica.\r\n", Failure::not_ready},
        {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", Failure::not_ready},
        {"-LOADING Redis is loading the dataset in memory\r\n", Failure::not_ready},
        {"-NOPERM this user has no permissions\r\n", Failure::refused},
        {"-BUSY Redis is busy running a script.\r\n", Failure::not_ready},
        {"-ERR " + std::string(5'000, 'x') + "\r\n", Failure::refused},
        {"-\r\n", Failure::refused},
    };
    std::size_t next = 0;
    rig.server.evalsha = [&](const Words&) { return errors[next++ % errors.size()].first; };
    CHECK(lines_logged("refused the script count", [&] {
              for (std::size_t i = 0; i < 200; ++i) {
                  CHECK(rig.ask("x").failed(errors[i % errors.size()].second));
              }
          }) <= 2);
    CHECK(rig.server.count("EVALSHA") == 200);
    CHECK(rig.client->is_up());
}

TEST_CASE("client: one command too many in flight is refused, whether waiting or sent") {
    Rig rig([](ClientOptions& options) { options.max_in_flight = 2; });
    rig.send("a");
    rig.send("b");
    rig.send("c");
    CHECK(rig.refused == Failure::overloaded);
    rig.run();
    CHECK(rig.until([&] { return rig.askers[1].told == 1; }));
    rig.server.evalsha = [](const Words&) { return ""; };
    rig.send("d");
    rig.send("e");
    CHECK(rig.refused == std::nullopt);
    rig.send("f");
    CHECK(rig.refused == Failure::overloaded);
    CHECK(rig.until([&] { return rig.server.count("EVALSHA") == 4; }));
    rig.server.say("+1\r\n+2\r\n");
    CHECK(rig.until([&] { return rig.askers[4].told == 1; }));
    CHECK(rig.askers[2].told == 0);
    CHECK(rig.askers[5].told == 0);
}

TEST_CASE("client: stopping fails all that wait, ends run and refuses the rest") {
    Rig rig;
    Failure expected = Failure::unavailable;
    SUBCASE("connected") {
        rig.connect();
        rig.server.evalsha = [](const Words&) { return ""; };
        expected = Failure::disconnected;  // it has left, and may be carried out
    }
    SUBCASE("in the handshake") {
        rig.server.other = [](const Words&) { return ""; };
        rig.run();
        CHECK(rig.until([&] { return rig.server.count("SCRIPT") == 1; }));
    }
    SUBCASE("before the first step") {
        rig.run();
    }
    Asker& asker = rig.send("x");
    rig.client->stop();
    CHECK(asker.failed(expected));
    CHECK(rig.until([&] { return rig.ended; }));
    rig.send("y");
    CHECK(rig.refused == Failure::unavailable);
    CHECK(asker.told == 1);
}

TEST_CASE("client: stopping ends the pause between attempts") {
    Rig rig([](ClientOptions& options) { options.probe_every = 60s; });
    rig.server.refuse();
    rig.run();
    CHECK(rig.until([&] { return rig.is_down(); }));
    rig.client->stop();
    CHECK(test::run_until(
        rig.io, [&] { return rig.ended; }, 1s));
}

}  // namespace tidegate::redis::client_test

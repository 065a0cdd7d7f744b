#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/local_report.hpp"
#include "store/memory_store.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_redis.hpp"

namespace tidegate::store::local_report_test {
namespace {

using namespace std::chrono_literals;
using test::run_until;
using test::Words;

// A worker that reports to Redis what it admitted.
struct Rig : test::RedisFixture {
    Rig()
        : report(std::make_unique<LocalReport>(RedisStore{client, "tg:"},
                                               LocalReport::Options{.at_once = 4}, metrics)) {
        run();
    }
    ~Rig() { stop(); }

    void await_connected() {
        CHECK(wait([&] { return server.count("SCRIPT") >= all_scripts().size(); }));
    }
    void admit(const std::string& identifier, limit::Micros at = process_now().steady) {
        const limit::ChargeItem item{&some, identifier};
        limit::Verdict verdict;
        memory.charge({{&item, 1}, 1}, at, verdict);
        report->took({{&item, 1}, 1}, verdict);
    }
    // A tick of the worker, so long after the one before that no pause delays it.
    void tick() {
        now += 2s;
        report->send(now);
    }
    bool counted(const std::string& result, std::size_t times) {
        const auto is_so = [&] {
            return test::text_of(metrics).find("tidegate_local_reports_total{result=\"" + result +
                                               "\"} " + std::to_string(times) + "\n") !=
                   std::string::npos;
        };
        return run_until(io, is_so, 2s);
    }
    // The identifiers that were reported, in order.
    std::vector<std::string> told() const {
        std::vector<std::string> identifiers;
        for (const Words& words : server.seen) {
            if (words[0] != "EVALSHA" || words[1] != report_script().sha1) continue;
            const std::size_t brace = words[3].find('{');
            identifiers.push_back(words[3].substr(brace + 1, words[3].size() - brace - 2));
        }
        std::sort(identifiers.begin(), identifiers.end());
        return identifiers;
    }

    MemoryStore memory{MemoryStore::Options{}};
    std::unique_ptr<LocalReport> report;
    limit::Policy some = test::policy("p", {test::window(100, 1h)});
    SteadyTime now = std::chrono::steady_clock::now();
};

}  // namespace

TEST_CASE("local_report: without Redis it waits, then it reports each identifier once") {
    Rig rig;
    rig.server.refuse();
    rig.await_up(false);
    rig.admit("user:a");
    rig.admit("user:b");
    rig.admit("user:a");
    rig.tick();
    CHECK_FALSE(rig.report->empty());
    rig.server.listen();
    rig.await_up(true);
    rig.tick();
    CHECK(rig.counted("reported", 2));
    rig.tick();
    CHECK(rig.report->empty());
    CHECK(rig.told() == std::vector<std::string>{"user:a", "user:b"});
    // Later units are reported by themselves.
    rig.admit("user:a");
    rig.tick();
    CHECK(rig.counted("reported", 3));
}

TEST_CASE("local_report: reports under way are bounded while Redis does not answer") {
    Rig rig;
    rig.await_connected();
    bool answering = false;
    rig.server.evalsha = [&](const Words&) { return answering ? ":1\r\n" : ""; };
    for (int i = 0; i < 10; ++i) rig.admit("user:" + std::to_string(i));
    rig.tick();
    CHECK(rig.wait([&] { return rig.told().size() == 4; }));
    rig.tick();
    CHECK(rig.told().size() == 4);
    answering = true;
    rig.server.say(":1\r\n:1\r\n:1\r\n:1\r\n");
    CHECK(rig.counted("reported", 4));
    rig.tick();
    CHECK(rig.counted("reported", 8));
    rig.tick();
    CHECK(rig.counted("reported", 10));
    CHECK(rig.report->empty());
}

TEST_CASE("local_report: a report that was sent and not answered is not sent again") {
    Rig rig;
    rig.await_connected();
    rig.server.evalsha = [](const Words&) { return ""; };
    rig.admit("user:a");
    rig.tick();
    CHECK(rig.counted("lost", 1));
    CHECK(rig.report->empty());
    CHECK(rig.told().size() == 1);
}

TEST_CASE("local_report: a report that was not sent is kept") {
    Rig rig;
    rig.await_connected();
    rig.admit("user:a");
    rig.tick();  // it is to leave at the end of this turn of the loop
    rig.client->stop();
    CHECK_FALSE(rig.report->empty());
    CHECK(rig.told().empty());
    CHECK(rig.counted("lost", 0));
}

TEST_CASE(
    "local_report: a report of an identifier that was reset is not kept, though it was not sent") {
    Rig rig;
    rig.await_connected();
    rig.admit("user:a");
    rig.admit("user:b");
    rig.tick();
    const limit::ChargeItem reset{&rig.some, "user:a"};
    rig.report->forget({&reset, 1});
    rig.client->stop();
    CHECK_FALSE(rig.report->empty());  // user:b
    const limit::ChargeItem other{&rig.some, "user:b"};
    rig.report->forget({&other, 1});
    CHECK(rig.report->empty());
}

TEST_CASE("local_report: a report that was reset before it was sent has no units") {
    Rig rig;
    rig.await_connected();
    rig.admit("user:a");
    rig.tick();
    const limit::ChargeItem reset{&rig.some, "user:a"};
    rig.report->forget({&reset, 1});
    CHECK(rig.wait([&] { return rig.told().size() == 1; }));
    constexpr std::size_t kTimeAndNoPortions = 8 + 2;
    CHECK(rig.server.seen.back().at(5).size() == kTimeAndNoPortions);
    CHECK(rig.wait([&] { return rig.report->empty(); }));
    CHECK(rig.counted("reported", 0));
}

TEST_CASE("local_report: a report that Redis refuses is sent a few times and then dropped") {
    Rig rig;
    rig.await_connected();
    rig.server.evalsha = [](const Words&) { return "-OOM no room\r\n"; };
    rig.admit("user:a");
    for (std::size_t time = 1; time <= 3; ++time) {
        CHECK(rig.wait([&] {
            rig.tick();
            return rig.told().size() == time;
        }));
        CHECK(rig.counted("refused", time == 3 ? 1 : 0));
    }
    CHECK(rig.report->empty());
}

TEST_CASE("local_report: after a failure it pauses for a while") {
    Rig rig;
    rig.await_connected();
    rig.server.evalsha = [](const Words&) { return "-OOM no room\r\n"; };
    rig.admit("user:a");
    rig.tick();
    CHECK(rig.wait([&] { return rig.told().size() == 1; }));
    CHECK_FALSE(run_until(
        rig.io, [] { return false; }, 50ms));  // the refusal has come
    rig.report->send(rig.now);
    for (int tick = 1; tick < 20; ++tick) rig.report->send(rig.now + tick * 50ms);
    CHECK(rig.told().size() == 1);
    rig.server.evalsha = [](const Words&) { return ":1\r\n"; };
    rig.report->send(rig.now + 1'000ms);
    CHECK(rig.counted("reported", 1));
}

TEST_CASE("local_report: units that no longer count are not reported") {
    Rig rig;
    rig.await_connected();
    rig.admit("user:a", process_now().steady - 2h);
    rig.tick();
    CHECK(rig.counted("expired", 1));
    CHECK(rig.told().empty());
    CHECK(rig.report->empty());
}

}  // namespace tidegate::store::local_report_test

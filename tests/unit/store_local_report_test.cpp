#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "store/local_report.hpp"
#include "store/memory_store.hpp"
#include "store/process_clock.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_redis.hpp"

namespace tidegate::store::local_report_test {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Micros;
using test::made;
using test::run_until;
using test::spec_of;
using test::window;
using test::Words;

namespace {

constexpr Micros kBegin{1'700'000'000'000'000};

// Counts in process and notes what it takes.
struct LedgerRig {
    explicit LedgerRig(const LocalLedger::Options& options = {}) : ledger(options) {}

    bool charge(const limit::Policy& policy, const std::string& identifier, Micros now,
                std::int64_t cost = 1) {
        const limit::ChargeItem item{&policy, identifier};
        const limit::Charge charge{{&item, 1}, cost};
        memory.charge(charge, now, verdict);
        forgotten += ledger.take(charge, verdict);
        return verdict.admitted;
    }
    void give_back(const limit::Policy& policy, const std::string& identifier, Micros now) {
        const limit::ChargeItem item{&policy, identifier};
        const limit::Refund refund{{{&item, 1}, 1}, &verdict.receipt, limit::Refund::Of::all, 0};
        ledger.give_back(refund, now);
    }
    std::vector<LocalTaken> all() {
        return ledger.hand_out(1'000, [](const LocalTaken&) { return true; });
    }

    MemoryStore memory{MemoryStore::Options{}};
    LocalLedger ledger;
    limit::Verdict verdict;
    std::size_t forgotten = 0;
};

using Portions = std::vector<limit::UnreportedPortions::Portion>;

// What is noted of a limit of windows, or of a bucket.
const Portions& portions(const LocalTaken& taken, std::size_t limit) {
    return std::get<limit::UnreportedPortions>(taken.limits[limit]).all;
}
const limit::UnreportedBucket& bucket(const LocalTaken& taken, std::size_t limit) {
    return std::get<limit::UnreportedBucket>(taken.limits[limit]);
}

// `began:units` of each portion.
std::string portions_of(const LocalTaken& taken, std::size_t limit) {
    std::string text;
    for (const auto& portion : portions(taken, limit)) {
        text += std::to_string((portion.began - kBegin).count()) + ":" +
                std::to_string(portion.units) + " ";
    }
    return text;
}

}  // namespace

TEST_CASE("local_ledger: an identifier that is reset is forgotten under every tier, and no other") {
    LedgerRig rig;
    auto some = test::policy("p", {window(100, 10s)});
    some.index = 0;
    some.tiers.push_back({"pro", {window(200, 1h)}, 1});
    auto other = test::policy("q", {window(100, 10s)});
    other.index = 2;
    CHECK(rig.charge(some, "a", kBegin));
    CHECK(rig.charge(some, "b", kBegin));
    CHECK(rig.charge(other, "a", kBegin));
    const limit::ChargeItem as_pro{&some, "a", &some.tiers[0]};
    const limit::Charge charge{{&as_pro, 1}, 1};
    rig.memory.charge(charge, kBegin, rig.verdict);
    rig.ledger.take(charge, rig.verdict);
    CHECK(rig.ledger.size() == 4);
    const limit::ChargeItem meant{&some, "a"};
    rig.ledger.forget({&meant, 1});
    const auto left = rig.all();
    REQUIRE(left.size() == 2);
    for (const LocalTaken& taken : left) CHECK(taken.policy->name + taken.identifier != "pa");
}

TEST_CASE("local_ledger: units are noted in the sub-bucket of each limit that they were taken in") {
    LedgerRig rig;
    auto spec = spec_of(Algorithm::sliding_window, 100, 10s);
    spec.precision = 1s;
    const auto some = test::policy(
        "p", {made(spec), made(spec_of(Algorithm::sliding_log, 100, 10s)), window(100, 1h)});
    CHECK(rig.charge(some, "a", kBegin + 100us));
    CHECK(rig.charge(some, "a", kBegin + 200us, 2));
    CHECK(rig.charge(some, "a", kBegin + 2s + 1us, 5));
    CHECK(rig.charge(some, "b", kBegin));
    CHECK(rig.ledger.size() == 2);
    const auto all = rig.all();
    REQUIRE(all.size() == 2);
    const LocalTaken& taken = all[all[0].identifier == "a" ? 0 : 1];
    CHECK(taken.identifier == "a");
    CHECK(portions_of(taken, 0) == "0:3 2000000:5 ");
    CHECK(portions_of(taken, 1) == "100:1 200:2 2000001:5 ");
    CHECK(portions(taken, 2).size() == 1);
    CHECK(portions(taken, 2)[0].units == 8);
    CHECK(rig.ledger.empty());
}

TEST_CASE("local_ledger: a denial is noted only where the denied count, a cost of nothing never") {
    LedgerRig rig;
    auto spec = spec_of(Algorithm::sliding_window, 5, 10s);
    spec.count = limit::Count::all;
    const auto some = test::policy("p", {window(1, 1h), made(spec)});
    CHECK(rig.charge(some, "a", kBegin, 0));
    CHECK(rig.ledger.empty());
    CHECK(rig.charge(some, "a", kBegin));
    CHECK_FALSE(rig.charge(some, "a", kBegin));
    const auto plain = test::policy("q", {window(1, 1h)});
    CHECK_FALSE(rig.charge(plain, "a", kBegin, 2));
    const auto all = rig.all();
    REQUIRE(all.size() == 1);
    CHECK(portions(all[0], 0)[0].units == 1);
    CHECK(portions(all[0], 1)[0].units == 2);
}

TEST_CASE("local_ledger: what Redis keeps in sets is left out") {
    LedgerRig rig;
    const auto slots = test::policy("p", {made(spec_of(Algorithm::concurrency, 5, 0s))});
    const auto moments = test::policy("q", {made(spec_of(Algorithm::schedule, 5, 1h))});
    CHECK(rig.charge(slots, "a", kBegin));
    CHECK(rig.charge(moments, "a", kBegin));
    CHECK(rig.ledger.empty());
}

TEST_CASE("local_ledger: units that are given back are not reported") {
    LedgerRig rig;
    const auto some = test::policy("p", {window(9, 1h), made(spec_of(Algorithm::gcra, 10, 10s)),
                                         made(spec_of(Algorithm::sliding_log, 9, 1h))});
    CHECK(rig.charge(some, "a", kBegin));
    CHECK(rig.charge(some, "a", kBegin + 1us));
    rig.give_back(some, "a", kBegin + 2us);
    rig.give_back(some, "b", kBegin + 2us);  // of which nothing is known
    auto all = rig.all();
    REQUIRE(all.size() == 1);
    CHECK(portions(all[0], 0)[0].units == 1);
    CHECK(bucket(all[0], 1).taken == 1);
    CHECK(bucket(all[0], 1).bucket.tat_us < (kBegin + 1s + 3us).count());
    CHECK(portions_of(all[0], 2) == "0:1 ");
    rig.give_back(some, "a", kBegin + 3us);  // it has been handed out
    CHECK(rig.ledger.empty());
}

TEST_CASE("local_ledger: sub-buckets that are over are not kept") {
    LedgerRig rig;
    auto spec = spec_of(Algorithm::sliding_window, 1'000'000, 10s);
    spec.precision = 1s;
    const auto some =
        test::policy("p", {made(spec), made(spec_of(Algorithm::sliding_log, 1'000, 1s))});
    for (int i = 0; i < 5'000; ++i) CHECK(rig.charge(some, "a", kBegin + i * 7ms));
    const auto all = rig.all();
    REQUIRE(all.size() == 1);
    CHECK(portions(all[0], 0).size() == 10);
    CHECK(portions(all[0], 1).size() <= 144);
    CHECK(all[0].ends > kBegin + 5'000 * 7ms);
}

TEST_CASE("local_ledger: a flood of new names evicts its own entries, not those near the limit") {
    LedgerRig rig({.identifiers_max = 100, .portions_max = 1'000});
    const auto some = test::policy("p", {window(20, 1h)});
    for (int i = 0; i < 10; ++i) CHECK(rig.charge(some, "busy", kBegin));
    for (int i = 0; i < 5'000; ++i) rig.charge(some, std::to_string(i), kBegin + i * 1us);
    CHECK(rig.ledger.size() == 100);
    CHECK(rig.forgotten == 4'901);
    std::size_t busy = 0;
    for (int i = 0; i < 10; ++i) {
        for (const LocalTaken& taken : rig.all()) busy += taken.identifier == "busy" ? 1 : 0;
    }
    CHECK(busy == 1);
}

TEST_CASE("local_ledger: the total of all notes is bounded, too") {
    const auto some = test::policy("p", {made(spec_of(Algorithm::sliding_log, 1'000, 1h))});
    std::size_t most = 0;
    // The evicted name is drawn, and goes with all its units: what is left differs from time to
    // time.
    for (int times = 0; times < 5; ++times) {
        LedgerRig rig({.identifiers_max = 1'000, .portions_max = 500});
        for (int i = 0; i < 10'000; ++i) {
            CHECK(rig.charge(some, std::to_string(i % 20), kBegin + i * 1us));
        }
        std::size_t portions = 0;
        for (const LocalTaken& taken : rig.all()) portions += taken.portions();
        CHECK(portions <= 500);
        CHECK(rig.forgotten > 0);
        most = std::max(most, portions);
    }
    CHECK(most > 100);
}

TEST_CASE("local_ledger: only entries that are ready are handed out, each in its turn") {
    LedgerRig rig;
    const auto some = test::policy("p", {window(20, 1h)});
    for (int i = 0; i < 300; ++i) rig.charge(some, std::to_string(i), kBegin);
    const auto is_ready = [](const LocalTaken& taken) { return taken.identifier.ends_with('7'); };
    std::size_t handed = 0;
    for (int call = 0; call < 30; ++call) handed += rig.ledger.hand_out(3, is_ready).size();
    CHECK(handed == 30);
    CHECK(rig.ledger.size() == 270);
}

TEST_CASE("local_ledger: units that are put back join those that came since") {
    auto precise = spec_of(Algorithm::sliding_window, 100, 10s);
    precise.precision = 1s;
    const auto some = test::policy("p", {made(precise), made(spec_of(Algorithm::gcra, 10, 10s))});
    LedgerRig parted;
    LedgerRig whole;
    const auto charge = [&](Micros at, std::int64_t cost) {
        CHECK(parted.charge(some, "a", kBegin + at, cost));
        CHECK(whole.charge(some, "a", kBegin + at, cost));
    };
    charge(0s, 3);
    charge(1s, 1);
    auto early = parted.all();
    REQUIRE(early.size() == 1);
    charge(1500ms, 2);
    SUBCASE("with a pause before") {
        charge(8s, 1);
    }
    SUBCASE("without") {}
    parted.ledger.put_back(std::move(early[0]));
    CHECK(parted.ledger.size() == 1);
    const auto joined = parted.all();
    const auto expected = whole.all();
    REQUIRE(joined.size() == 1);
    CHECK(portions_of(joined[0], 0) == portions_of(expected[0], 0));
    CHECK(bucket(joined[0], 1).taken == bucket(expected[0], 1).taken);
    CHECK(bucket(joined[0], 1).first == bucket(expected[0], 1).first);
    CHECK(bucket(joined[0], 1).bucket.tat_us == bucket(expected[0], 1).bucket.tat_us);
    CHECK(bucket(joined[0], 1).bucket.parts == bucket(expected[0], 1).bucket.parts);
    CHECK(joined[0].ends == expected[0].ends);
}

TEST_CASE("local_ledger: limits that changed meanwhile are reported as they were") {
    LedgerRig rig;
    const auto before = test::policy("p", {window(20, 1h)});
    const auto after = test::policy("p", {window(50, 1h)});
    CHECK(rig.charge(before, "a", kBegin));
    CHECK(rig.charge(after, "a", kBegin));
    const auto all = rig.all();
    REQUIRE(all.size() == 2);
    CHECK(all[0].policy->limits[0].quota + all[1].policy->limits[0].quota == 70);
}

namespace {

// A worker that reports to Redis what it admitted.
struct Rig : test::RedisFixture {
    explicit Rig(std::chrono::milliseconds timeout = 10s)
        : RedisFixture(all_scripts(), 100, timeout),
          report(std::make_unique<LocalReport>(RedisStore{client, "tg:"},
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
    Rig rig(500ms);
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
    rig.server.evalsha = [](const Words&) { return "-ERR no\r\n"; };
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

TEST_CASE("local_report: a report that Redis is not ready for waits until it is") {
    Rig rig;
    rig.await_connected();
    rig.server.evalsha = [](const Words&) { return "-OOM no room\r\n"; };
    rig.admit("user:a");
    for (std::size_t time = 1; time <= 6; ++time) {
        CHECK(rig.wait([&] {
            rig.tick();
            return rig.told().size() == time;
        }));
    }
    rig.server.evalsha = [](const Words&) { return ":1\r\n"; };
    CHECK(rig.wait([&] {
        rig.tick();
        return rig.told().size() == 7;
    }));
    CHECK(rig.counted("reported", 1));
    CHECK(rig.counted("refused", 0));
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

TEST_CASE("local_report: limits with quotas of tokens keep what each identifier took") {
    LocalLedger ledger{{}};
    MemoryStore memory{MemoryStore::Options{}};
    limit::Policy policy;
    policy.name = "p";
    policy.limits = {window(100, 1s)};
    std::vector<limit::Tier> tiers(2);
    for (limit::Tier& tier : tiers) {
        tier.limits = policy.limits;
        tier.by_claims = true;
    }
    tiers[1].limits.front().quota = 500;
    limit::Verdict verdict;
    for (int i = 0; i < 6; ++i) {
        const limit::ChargeItem item{&policy, i % 2 == 0 ? "a" : "b",
                                     &tiers[static_cast<std::size_t>(i % 2)]};
        const limit::Charge charge{{&item, 1}, 1};
        memory.charge(charge, kBegin, verdict);
        CHECK(ledger.take(charge, verdict) == 0);
    }
    CHECK(ledger.size() == 2);
}

}  // namespace tidegate::store::local_report_test

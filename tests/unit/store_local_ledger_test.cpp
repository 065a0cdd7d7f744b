#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "store/local_ledger.hpp"
#include "store/memory_store.hpp"
#include "unit/store_asking.hpp"

namespace tidegate::store::local_ledger_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Micros;
using test::made;
using test::spec_of;
using test::window;

constexpr Micros kBegin{1'700'000'000'000'000};

// Counts in process and notes what it takes.
struct Rig {
    explicit Rig(const LocalLedger::Options& options = {}) : ledger(options) {}

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

// `began:units` of each portion.
std::string portions_of(const LocalTaken& taken, std::size_t limit) {
    std::string text;
    for (const auto& portion : taken.limits[limit].portions) {
        text += std::to_string((portion.began - kBegin).count()) + ":" +
                std::to_string(portion.units) + " ";
    }
    return text;
}

}  // namespace

TEST_CASE("local_ledger: an identifier that is reset is forgotten under every tier, and no other") {
    Rig rig;
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
    Rig rig;
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
    CHECK(taken.limits[2].portions.size() == 1);
    CHECK(taken.limits[2].portions[0].units == 8);
    CHECK(rig.ledger.empty());
}

TEST_CASE("local_ledger: a denial is noted only where the denied count, a cost of nothing never") {
    Rig rig;
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
    CHECK(all[0].limits[0].portions[0].units == 1);
    CHECK(all[0].limits[1].portions[0].units == 2);
}

TEST_CASE("local_ledger: what Redis keeps in sets is left out") {
    Rig rig;
    const auto slots = test::policy("p", {made(spec_of(Algorithm::concurrency, 5, 0s))});
    const auto moments = test::policy("q", {made(spec_of(Algorithm::schedule, 5, 1h))});
    CHECK(rig.charge(slots, "a", kBegin));
    CHECK(rig.charge(moments, "a", kBegin));
    CHECK(rig.ledger.empty());
}

TEST_CASE("local_ledger: units that are given back are not reported") {
    Rig rig;
    const auto some = test::policy("p", {window(9, 1h), made(spec_of(Algorithm::gcra, 10, 10s)),
                                         made(spec_of(Algorithm::sliding_log, 9, 1h))});
    CHECK(rig.charge(some, "a", kBegin));
    CHECK(rig.charge(some, "a", kBegin + 1us));
    rig.give_back(some, "a", kBegin + 2us);
    rig.give_back(some, "b", kBegin + 2us);  // of which nothing is known
    auto all = rig.all();
    REQUIRE(all.size() == 1);
    CHECK(all[0].limits[0].portions[0].units == 1);
    CHECK(all[0].limits[1].units == 1);
    CHECK(all[0].limits[1].bucket.tat_us < (kBegin + 1s + 3us).count());
    CHECK(portions_of(all[0], 2) == "0:1 ");
    rig.give_back(some, "a", kBegin + 3us);  // it has been handed out
    CHECK(rig.ledger.empty());
}

TEST_CASE("local_ledger: sub-buckets that are over are not kept") {
    Rig rig;
    auto spec = spec_of(Algorithm::sliding_window, 1'000'000, 10s);
    spec.precision = 1s;
    const auto some =
        test::policy("p", {made(spec), made(spec_of(Algorithm::sliding_log, 1'000, 1s))});
    for (int i = 0; i < 5'000; ++i) CHECK(rig.charge(some, "a", kBegin + i * 7ms));
    const auto all = rig.all();
    REQUIRE(all.size() == 1);
    CHECK(all[0].limits[0].portions.size() == 10);
    CHECK(all[0].limits[1].portions.size() <= 144);
    CHECK(all[0].ends > kBegin + 5'000 * 7ms);
}

TEST_CASE("local_ledger: a flood of new names evicts its own entries, not those near the limit") {
    Rig rig({.identifiers_max = 100, .portions_max = 1'000});
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
        Rig rig({.identifiers_max = 1'000, .portions_max = 500});
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
    Rig rig;
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
    Rig parted;
    Rig whole;
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
    CHECK(joined[0].limits[1].units == expected[0].limits[1].units);
    CHECK(joined[0].limits[1].first == expected[0].limits[1].first);
    CHECK(joined[0].limits[1].bucket.tat_us == expected[0].limits[1].bucket.tat_us);
    CHECK(joined[0].limits[1].bucket.parts == expected[0].limits[1].bucket.parts);
    CHECK(joined[0].ends == expected[0].ends);
}

TEST_CASE("local_ledger: limits that changed meanwhile are reported as they were") {
    Rig rig;
    const auto before = test::policy("p", {window(20, 1h)});
    const auto after = test::policy("p", {window(50, 1h)});
    CHECK(rig.charge(before, "a", kBegin));
    CHECK(rig.charge(after, "a", kBegin));
    const auto all = rig.all();
    REQUIRE(all.size() == 2);
    CHECK(all[0].policy->limits[0].quota + all[1].policy->limits[0].quota == 70);
}

}  // namespace tidegate::store::local_ledger_test

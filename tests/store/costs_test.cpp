// Costs of an item's own, policies that only warn, and true costs: the same in every store.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>

#include "store/local_report.hpp"
#include "store/redis_asking.hpp"
#include "store/refund.hpp"

namespace tidegate::test::costs_test {
namespace {

using namespace std::chrono_literals;
using limit::ChargeItem;
using limit::Refund;
using limit::Verdict;

constexpr std::string_view kUser = "user:alice";

// A request and its tokens, of one user.
struct Budget {
    explicit Budget(std::int64_t requests_quota = 5, std::int64_t tokens_quota = 1'000)
        : requests(policy("requests", {sliding(requests_quota, 1min)})),
          tokens(policy("tokens", {sliding(tokens_quota, 1min), fixed(10 * tokens_quota, 1h)})) {}

    std::vector<ChargeItem> items(std::int64_t cost) const {
        std::vector<ChargeItem> made{{&requests, kUser}, {&tokens, kUser}};
        made[1].own_cost = cost;
        return made;
    }

    limit::Policy requests;
    limit::Policy tokens;
};

// What is counted of the first limit of each item.
template <class Store>
std::vector<std::int64_t> counted(Store& subject, const std::vector<ChargeItem>& items,
                                  Micros now) {
    std::vector<std::int64_t> units;
    for (const auto& item : subject.count(items, now).items) {
        units.push_back(item.limits.at(0).counted);
    }
    return units;
}

// Runs `body` over every store that tells its counts.
template <class Body>
void over_all(Body body) {
    SUBCASE("in process") {
        MemorySubject subject;
        body(subject);
    }
    SUBCASE("in Redis") {
        RedisSubject subject;
        body(subject);
    }
}

using Units = std::vector<std::int64_t>;

// A billion dollars a month, and as much an hour.
limit::Policy of_money(std::int64_t quota) {
    limit::LimitSpec hour = spec_of(limit::Algorithm::sliding_window, quota, 1h);
    hour.in_money = true;
    limit::LimitSpec month = spec_of(limit::Algorithm::fixed_window, quota, 0s);
    month.anchor = limit::Anchor::utc_month;
    month.in_money = true;
    limit::LimitSpec opened = spec_of(limit::Algorithm::fixed_window, quota, 20s);
    opened.anchor = limit::Anchor::first_request;
    opened.in_money = true;
    return policy("money", {made(hour), made(month), made(opened)});
}

}  // namespace

TEST_CASE("money: a billion dollars is counted to the millionth, in marks, totals and refunds") {
    over_all([](KeepingSubject& subject) {
        const auto some = of_money(limit::kMoneyMax);
        ChargeItem item{&some, kUser};
        const auto charge = [&](std::int64_t cost, Micros now) {
            item.own_cost = cost;
            return subject.charge({{&item, 1}, 1}, now);
        };
        const std::int64_t third = 333'333'333'333'333;
        const Verdict first = charge(third, kStart);
        REQUIRE(first.admitted);
        CHECK(first.limits[0].remaining == limit::kMoneyMax - third);
        const Verdict second = charge(third, kStart + 10min);
        CHECK(charge(third, kStart + 20min).admitted);
        CHECK_FALSE(charge(2, kStart + 20min).admitted);
        CHECK(charge(1, kStart + 20min).limits[1].remaining == 0);
        const Verdict denied = charge(1, kStart + 20min);
        CHECK_FALSE(denied.admitted);
        CHECK(denied.limits[0].remaining == 0);
        CHECK(denied.limits[2].remaining == 666'666'666'666'666);
        item.own_cost = third - 7;
        subject.give_back({{{&item, 1}, 1}, &second.receipt, Refund::Of::all}, kStart + 21min);
        const auto counts = subject.count({&item, 1}, kStart + 21min);
        CHECK(counts.items[0].limits[0].counted == 2 * third + 8);
        CHECK(counts.items[0].limits[1].counted == 2 * third + 8);
        CHECK(charge(third - 7, kStart + 22min).limits[0].remaining == 0);
        // An hour after the first, its sub-bucket is free.
        const Verdict later = charge(third, kStart + 62min);
        CHECK_FALSE(later.limits[0].denied);
        CHECK(later.limits[1].denied);
    });
}

TEST_CASE("money: a soft limit counts to four times the largest quota, and stays there") {
    over_all([](KeepingSubject& subject) {
        auto some = of_money(1'000'000);
        some.soft = true;
        ChargeItem item{&some, kUser};
        item.own_cost = limit::kMoneyMax;
        for (int i = 0; i < 6; ++i) {
            CHECK(subject.charge({{&item, 1}, 1}, kStart + i * 1s).admitted);
        }
        const auto counts = subject.count({&item, 1}, kStart + 6s);
        CHECK(counts.items[0].limits[0].counted == limit::kMoneyCountedMax);
        CHECK(counts.items[0].limits[1].counted == limit::kMoneyCountedMax);
    });
}

TEST_CASE("money: totals that wrap many times count right") {
    over_all([](KeepingSubject& subject) {
        limit::LimitSpec spec = spec_of(limit::Algorithm::sliding_window, limit::kMoneyMax, 10s);
        spec.precision = 1s;
        spec.in_money = true;
        const auto some = policy("money", {made(spec)});
        ChargeItem item{&some, kUser};
        Micros now = kStart - kStart % 1s;
        for (int i = 0; i < 400; ++i) {
            CAPTURE(i);
            item.own_cost = limit::kMoneyMax / 10 - i;
            const Verdict verdict = subject.charge({{&item, 1}, 1}, now);
            REQUIRE(verdict.admitted);
            now += 1s;
        }
        const auto counts = subject.count({&item, 1}, now - 1s);
        CHECK(counts.items[0].limits[0].counted == limit::kMoneyMax - 3'945);
    });
}

TEST_CASE("money: what is admitted without Redis is reported to the millionth") {
    RedisSubject redis;
    const auto some = of_money(limit::kMoneyMax);
    ChargeItem item{&some, kUser};
    item.own_cost = 777'777'777'777'777;
    store::LocalLedger ledger{store::LocalLedger::Options{}};
    Verdict all;
    all.receipt = {kStart, {1}};
    ledger.take({{&item, 1}, 1}, all);
    for (const store::LocalTaken& taken :
         ledger.hand_out(9, [](const store::LocalTaken&) { return true; })) {
        std::string command;
        store::append_report_command(taken, kStart + 1s, "t:", kStart + 1s, command);
        redis.connection().send(command);
        CHECK(redis.connection().read()->integer == 1);
    }
    const auto counts = redis.count({&item, 1}, kStart + 1s);
    for (const auto& limit : counts.items[0].limits) CHECK(limit.counted == item.own_cost);
}

TEST_CASE("own costs: all is taken or nothing, each policy at its own cost") {
    over_all([](KeepingSubject& subject) {
        const Budget budget;
        const auto first = budget.items(700);
        const Verdict taken = subject.charge({first, 1}, kStart);
        CHECK(taken.admitted);
        CHECK(taken.limits[0].remaining == 4);
        CHECK(taken.limits[1].remaining == 300);
        CHECK(taken.limits[2].remaining == 9'300);
        const auto more = budget.items(301);
        const Verdict denied = subject.charge({more, 1}, kStart);
        CHECK_FALSE(denied.admitted);
        CHECK_FALSE(denied.limits[0].denied);
        CHECK(denied.limits[1].denied);
        CHECK(denied.retry_after > 0s);
        CHECK(denied.receipt.generations == std::vector<std::uint64_t>{0, 0});
        CHECK(counted(subject, first, kStart) == Units{1, 700});
        const auto rest = budget.items(300);
        CHECK(subject.charge({rest, 4}, kStart).admitted);
        CHECK(counted(subject, first, kStart) == Units{5, 1'000});
        // Now it is the requests that deny, whatever the tokens are.
        const auto none = budget.items(0);
        const Verdict full = subject.charge({none, 1}, kStart);
        CHECK_FALSE(full.admitted);
        CHECK(full.limits[0].denied);
        CHECK_FALSE(full.limits[1].denied);
    });
}

TEST_CASE("own costs: an item that costs nothing takes nothing, and the others do") {
    over_all([](KeepingSubject& subject) {
        const Budget budget;
        const auto items = budget.items(0);
        const Verdict verdict = subject.charge({items, 1}, kStart);
        CHECK(verdict.admitted);
        CHECK(verdict.receipt.generations.at(0) != 0);
        CHECK(verdict.receipt.generations.at(1) == 0);
        CHECK(counted(subject, items, kStart) == Units{1, 0});
        auto only_tokens = budget.items(9);
        CHECK(subject.charge({only_tokens, 0}, kStart).admitted);
        CHECK(counted(subject, items, kStart) == Units{1, 9});
    });
}

TEST_CASE("own costs: of one policy, each identifier may have another") {
    over_all([](KeepingSubject& subject) {
        const auto some =
            policy("p", {sliding(100, 1min), made(spec_of(limit::Algorithm::gcra, 100, 1min))});
        std::vector<ChargeItem> items{{&some, "a"}, {&some, "b"}, {&some, "c"}, {&some, "d"}};
        items[1].own_cost = items[2].own_cost = 40;
        items[3].own_cost = 100;
        CHECK(subject.charge({items, 7}, kStart).admitted);
        CHECK(counted(subject, items, kStart) == Units{7, 40, 40, 100});
        const Verdict denied = subject.charge({items, 7}, kStart);
        CHECK_FALSE(denied.admitted);
        CHECK(denied.limits[0].remaining == 93);
        CHECK(denied.limits[2].remaining == 60);
        CHECK(denied.limits[6].denied);
        CHECK(counted(subject, items, kStart) == Units{7, 40, 40, 100});
    });
}

TEST_CASE("own costs: what is given back is the item's own, and in part if so asked") {
    over_all([](KeepingSubject& subject) {
        const Budget budget;
        const auto items = budget.items(800);
        const Verdict taken = subject.charge({items, 2}, kStart);
        REQUIRE(taken.admitted);
        auto less = items;
        less[0].own_cost = 0;
        less[1].own_cost = 550;
        subject.give_back({{less, 2}, &taken.receipt, Refund::Of::all}, kStart + 1s);
        CHECK(counted(subject, items, kStart + 1s) == Units{2, 250});
        const Verdict again = subject.charge({items, 2}, kStart + 2s);
        CHECK_FALSE(again.admitted);
        const auto fits = budget.items(750);
        CHECK(subject.charge({fits, 2}, kStart + 2s).admitted);
        // Once more than there is: never below what others took.
        subject.give_back({{fits, 2}, &taken.receipt, Refund::Of::all}, kStart + 3s);
        CHECK(counted(subject, items, kStart + 3s)[1] >= 250);
    });
}

TEST_CASE("soft: a request above the quota is admitted and counted, in all kinds of windows") {
    over_all([](KeepingSubject& subject) {
        auto gentle = policy("gentle", {sliding(10, 1min), fixed(15, 0s, limit::Anchor::utc_month),
                                        made(spec_of(limit::Algorithm::sliding_log, 10, 1min))});
        gentle.soft = true;
        const auto hard = policy("hard", {sliding(100, 1min)});
        const std::vector<ChargeItem> items{{&gentle, kUser}, {&hard, kUser}};
        for (int i = 1; i <= 6; ++i) {
            CAPTURE(i);
            const Verdict verdict = subject.charge({items, 4}, kStart + i * 1ms);
            CHECK(verdict.admitted);
            CHECK(verdict.shadow_admitted);
            CHECK(verdict.retry_after == 0s);
            CHECK(verdict.limits[0].denied == (i > 2));
            CHECK(verdict.limits[1].denied == (i > 3));
            CHECK(verdict.limits[0].remaining == std::max(0, 10 - 4 * i));
            CHECK_FALSE(verdict.limits[3].denied);
        }
        CHECK(counted(subject, items, kStart + 1s) == Units{24, 24});
        // Where another policy denies, nothing is taken.
        const Verdict denied = subject.charge({items, 90}, kStart + 1s);
        CHECK_FALSE(denied.admitted);
        CHECK(denied.limits[0].denied);
        CHECK(counted(subject, items, kStart + 1s) == Units{24, 24});
    });
}

TEST_CASE("soft: beside a policy in shadow, neither changes the other's answer") {
    over_every_store([](Subject& subject) {
        auto gentle = policy("gentle", {sliding(1, 1min)});
        gentle.soft = true;
        auto shadow = policy("shadow", {sliding(2, 1min)});
        shadow.shadow = true;
        const std::vector<ChargeItem> items{{&gentle, kUser}, {&shadow, kUser}};
        for (int i = 0; i < 4; ++i) {
            const Verdict verdict = subject.charge({items, 1}, kStart);
            CHECK(verdict.admitted);
            CHECK(verdict.shadow_admitted == (i < 2));
            CHECK(verdict.limits[0].denied == (i > 0));
        }
    });
}

TEST_CASE("own costs: a batch decides as the same charges one after the other") {
    RedisSubject redis;
    std::mt19937 random(7);
    const auto between = [&](int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random);
    };
    for (int round = 0; round < 50; ++round) {
        CAPTURE(round);
        Budget budget(40, 2'000);
        budget.tokens.soft = round % 3 == 2;
        std::vector<std::vector<ChargeItem>> items;
        for (int i = between(2, 64); i > 0; --i) items.push_back(budget.items(between(0, 120)));
        std::vector<limit::Charge> charges;
        for (const auto& one : items) charges.push_back({one, between(1, 2)});
        const Micros now = kStart + round * 1min;
        const auto together = charge_together(redis, charges, "b:", now);
        for (std::size_t i = 0; i < charges.size(); ++i) {
            CAPTURE(i);
            const Verdict alone = charge_as(redis, charges[i], "a:", now);
            CHECK(written(together[i]) == written(alone));
            REQUIRE(together[i].receipt.generations.size() == 2);
            for (std::size_t k = 0; k < 2; ++k) {
                CHECK((together[i].receipt.generations[k] == 0) ==
                      (alone.receipt.generations[k] == 0));
            }
        }
    }
}

TEST_CASE("own costs: 200 requests at once against a budget for 40, never more") {
    constexpr std::int64_t kEach = 25;
    constexpr std::int64_t kAdmitted = 40;
    const Budget budget(1'000, kAdmitted * kEach);
    const auto items = budget.items(kEach);
    SUBCASE("in process, from many threads") {
        store::MemoryStore memory{store::MemoryStore::Options{}};
        std::atomic<int> admitted{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t) {
            threads.emplace_back([&] {
                Verdict verdict;
                for (int i = 0; i < 25; ++i) {
                    memory.charge({items, 1}, kStart, verdict);
                    if (verdict.admitted) ++admitted;
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
        CHECK(admitted == kAdmitted);
    }
    SUBCASE("in Redis, in commands of several") {
        RedisSubject redis;
        int admitted = 0;
        for (int batch = 0; batch < 4; ++batch) {
            const std::vector<limit::Charge> charges(50, limit::Charge{items, 1});
            for (const Verdict& one : charge_together(redis, charges, "t:", kStart)) {
                admitted += one.admitted ? 1 : 0;
            }
        }
        CHECK(admitted == kAdmitted);
        CHECK(counted(redis, items, kStart) == Units{kAdmitted, kAdmitted * kEach});
    }
}

TEST_CASE("true costs: more than was taken counts above the quota, in both stores alike") {
    const Budget budget;
    auto items = budget.items(900);
    auto more = budget.items(600);
    more[0].own_cost = 0;
    SUBCASE("in process") {
        store::MemoryStore memory{store::MemoryStore::Options{}};
        Verdict verdict;
        memory.charge({items, 1}, kStart, verdict);
        CHECK(memory.take({more, 1}, kStart + 1s) == store::MemoryStore::Outcome::decided);
        CHECK(counted(memory, items, kStart + 1s) == Units{1, 1'500});
        memory.charge({items, 1}, kStart + 1s, verdict);
        CHECK_FALSE(verdict.admitted);
    }
    SUBCASE("in Redis") {
        RedisSubject redis;
        REQUIRE(redis.charge({items, 1}, kStart).admitted);
        store::LocalLedger ledger{store::LocalLedger::Options{}};
        Verdict all;
        all.receipt = {kStart + 1s, {1, 1}};
        ledger.take({more, 1}, all);
        for (const store::LocalTaken& taken :
             ledger.hand_out(9, [](const store::LocalTaken&) { return true; })) {
            std::string command;
            store::append_report_command(taken, kStart + 1s, "t:", kStart + 1s, command);
            redis.connection().send(command);
            redis.connection().read();
        }
        CHECK(counted(redis, items, kStart + 1s) == Units{1, 1'500});
        CHECK_FALSE(redis.charge({items, 1}, kStart + 1s).admitted);
    }
}

TEST_CASE("redis: one command gives back to several states, and to one state several times") {
    RedisSubject redis;
    const Budget budget(100, 10'000);
    store::StateRefunds refunds;
    for (const std::int64_t used : {100, 900, 0}) {
        const auto items = budget.items(1'000);
        const Verdict taken = redis.charge({items, 1}, kStart);
        REQUIRE(taken.admitted);
        for (std::size_t i = 0; i < items.size(); ++i) {
            ChargeItem one = items[i];
            one.own_cost = i == 0 ? 1 : 1'000 - used;
            const limit::Receipt receipt{taken.receipt.at, {taken.receipt.generations[i]}};
            const limit::Refund refund{{{&one, 1}, 1}, &receipt};
            REQUIRE(store::StateRefunds::concerns(refund, 0));
            refunds.add(refund, 0, "t:");
        }
    }
    const auto items = budget.items(1);
    REQUIRE(counted(redis, items, kStart) == Units{3, 3'000});
    std::string command;
    refunds.append_command(kStart + 1s, command);
    redis.connection().send(command);
    CHECK(redis.connection().read()->integer == 0);
    CHECK(counted(redis, items, kStart + 1s) == Units{0, 1'000});
}

}  // namespace tidegate::test::costs_test

// What people see of counts, and resets: the same in every store, and in accord with the limiter.
#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/redis_asking.hpp"
#include "store/trace.hpp"

namespace tidegate::test::counts_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::LimitSpec;
using store::Counts;
using store::ItemCounts;
using store::LimitCount;

// One identifier under one policy.
struct One {
    explicit One(std::vector<limit::Limit> limits) : some(policy("p", std::move(limits))) {}
    explicit One(const LimitSpec& spec) : One(std::vector{made(spec)}) {}
    One(const One&) = delete;
    One& operator=(const One&) = delete;

    limit::Charge cost(std::int64_t cost, std::uint64_t request = 1, Micros moment = {}) const {
        return {{&item, 1}, cost, {1, request}, moment};
    }
    template <class Subject>
    LimitCount count(Subject& subject, Micros now) const {
        return subject.count({&item, 1}, now).items.at(0).limits.at(0);
    }

    limit::Policy some;
    limit::ChargeItem item{&some, "user:a"};
};

std::string written(const LimitCount& count) {
    std::ostringstream out;
    const auto time = [](const std::optional<Micros>& one) { return one ? one->count() : -1; };
    out << count.counted << " counted, " << count.remaining << " left, next "
        << time(count.next_unit) << ", all " << time(count.all_free)
        << (count.denied ? ", denied for " : ", admitted ") << time(count.denied_for) << ", "
        << count.moments.size() << " moments";
    return out.str();
}

// Before and after each charge: the counts of the identifier.
struct Looked {
    Counts counts;
    limit::Verdict told;         // each item alone, at cost 0, in turn
    std::vector<bool> of_slots;  // true for the limits
    bool admitted = false;
    bool shadow_admitted = false;
    std::vector<bool> denied;  // of the charge: by limit
};

template <class Store>
class Looking : public Subject {
  public:
    limit::Verdict charge(const limit::Charge& charge, Micros now) override {
        look(charge, now, {});
        const auto verdict = subject_.charge(charge, now);
        look(charge, now, verdict);
        return verdict;
    }
    void give_back(const limit::Refund& refund, Micros now) override {
        subject_.give_back(refund, now);
        look(refund.charge, now, {});
    }
    void release(const limit::Charge& charge, Micros now) override {
        subject_.release(charge, now);
    }
    const std::vector<Looked>& looked() const { return looked_; }

  private:
    void look(const limit::Charge& charge, Micros now, const limit::Verdict& verdict) {
        Looked& one = looked_.emplace_back();
        one.counts = subject_.count(charge.items, now);
        one.admitted = verdict.admitted;
        one.shadow_admitted = verdict.shadow_admitted;
        for (const limit::LimitVerdict& limit : verdict.limits) one.denied.push_back(limit.denied);
        for (limit::ChargeItem item : charge.items) {
            item.own_cost = limit::ChargeItem::kOfCharge;
            const auto told = subject_.charge({{&item, 1}, 0, {}, now}, now).limits;
            one.told.limits.insert(one.told.limits.end(), told.begin(), told.end());
            for (const limit::Limit& limit : item.limits()) {
                one.of_slots.push_back(limit.algorithm == Algorithm::concurrency);
            }
        }
    }

    Store subject_;
    std::vector<Looked> looked_;
};

void check_against_told(const Looked& looked) {
    std::size_t position = 0;
    for (const ItemCounts& item : looked.counts.items) {
        for (const LimitCount& count : item.limits) {
            const limit::LimitVerdict& told = looked.told.limits.at(position++);
            CHECK(count.remaining == told.remaining);
            // A request for a slot gets one second, as the real time is unknown.
            if (count.next_unit) CHECK(count.next_unit == told.next_unit);
            CHECK((count.denied || !told.denied));
        }
    }
}

// Slots expire in Redis only, and then the two go ways of their own.
std::size_t compare(const std::vector<Looked>& here, const std::vector<Looked>& there) {
    std::size_t compared = 0;
    for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
        if (here[i].admitted != there[i].admitted) break;
        if (here[i].shadow_admitted != there[i].shadow_admitted) break;
        // What denies decides which candidates take.
        if (here[i].denied != there[i].denied) break;
        CHECK(here[i].counts.now == there[i].counts.now);
        std::size_t position = 0;
        for (std::size_t k = 0; k < here[i].counts.items.size(); ++k) {
            const auto& mine = here[i].counts.items[k].limits;
            const auto& other = there[i].counts.items[k].limits;
            for (std::size_t j = 0; j < mine.size(); ++j) {
                if (here[i].of_slots[position++]) continue;
                REQUIRE_MESSAGE(mine[j] == other[j], i, ": ", written(mine[j]), "; ",
                                written(other[j]));
                ++compared;
            }
        }
    }
    return compared;
}

}  // namespace

TEST_CASE("counts: both stores answer the same as a charge of cost 0") {
    std::size_t compared = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        CAPTURE(seed);
        const Trace trace(seed);
        Looking<MemorySubject> memory;
        Looking<RedisSubject> redis;
        play(trace, memory);
        play(trace, redis);
        for (const Looked& looked : memory.looked()) check_against_told(looked);
        for (const Looked& looked : redis.looked()) check_against_told(looked);
        compared += compare(memory.looked(), redis.looked());
    }
    CHECK(compared > 5'000);
}

TEST_CASE("counts: a denial lasts exactly as long as stated, and a look takes nothing") {
    LimitSpec leaky = spec_of(Algorithm::leaky_bucket, 5, 1s);
    leaky.burst = 2;
    LimitSpec bucket = spec_of(Algorithm::gcra, 7, 1s);
    bucket.burst = 3;
    for (const LimitSpec& spec :
         {spec_of(Algorithm::sliding_window, 3, 1s), spec_of(Algorithm::fixed_window, 3, 1s),
          spec_of(Algorithm::sliding_log, 3, 1s), bucket, leaky}) {
        over_every_store([&](auto& subject) {
            const One one(spec);
            Micros now = kStart;
            while (subject.charge(one.cost(1), now).admitted) now += 10ms;
            const LimitCount count = one.count(subject, now);
            CHECK(count == one.count(subject, now));
            REQUIRE(count.denied_for);
            CHECK(count.remaining == 0);
            CHECK_FALSE(subject.charge(one.cost(1), now + *count.denied_for - 1us).admitted);
            CHECK(one.count(subject, now + *count.denied_for - 1us).denied);
            CHECK_FALSE(one.count(subject, now + *count.denied_for).denied);
            REQUIRE(count.all_free);
            CHECK(one.count(subject, now + *count.all_free - 1us).counted > 0);
            CHECK(one.count(subject, now + *count.all_free).counted == 0);
            CHECK(subject.charge(one.cost(1), now + *count.denied_for).admitted);
        });
    }
}

TEST_CASE("counts: units above the quota are counted, and when the first request passes again") {
    LimitSpec spec = spec_of(Algorithm::sliding_window, 2, 10s);
    spec.count = limit::Count::all;
    over_every_store([&](auto& subject) {
        const One one(spec);
        for (int i = 0; i < 5; ++i) subject.charge(one.cost(1), kStart + i * 1s);
        const Micros now = kStart + 4s;
        const LimitCount count = one.count(subject, now);
        CHECK(count.counted == 5);
        CHECK(count.remaining == 0);
        REQUIRE(count.denied_for);
        // Not when the next unit is free: three more have to go.
        CHECK(*count.denied_for > *count.next_unit);
        CHECK(one.count(subject, now + *count.denied_for - 1us).counted == 2);
        CHECK(one.count(subject, now + *count.denied_for).counted == 1);
    });
}

TEST_CASE("counts: a quota of nothing denies for ever") {
    over_every_store([&](auto& subject) {
        const One one(spec_of(Algorithm::sliding_window, 0, 1s));
        const LimitCount count = one.count(subject, kStart);
        CHECK(count.denied);
        CHECK(count.denied_for == limit::kNever);
        CHECK(count.counted == 0);
    });
}

TEST_CASE("counts: held slots are counted, and a reset leaves them") {
    over_every_store([&](auto& subject) {
        LimitSpec slots = spec_of(Algorithm::concurrency, 2, 0s);
        LimitSpec window = spec_of(Algorithm::sliding_window, 9, 1h);
        const One one({made(slots), made(window)});
        for (const std::uint64_t request : {1, 2}) {
            REQUIRE(subject.charge(one.cost(1, request), kStart).admitted);
        }
        const ItemCounts before = subject.count({&one.item, 1}, kStart).items.at(0);
        CHECK(before.limits[0].counted == 2);
        CHECK(before.limits[0].denied);
        CHECK_FALSE(before.limits[0].denied_for);
        CHECK(before.limits[1].counted == 2);
        CHECK(subject.forget({&one.item, 1}) == std::vector{true});
        const ItemCounts after = subject.count({&one.item, 1}, kStart).items.at(0);
        CHECK(after.limits[0].counted == 2);
        CHECK(after.limits[1].counted == 0);
        CHECK_FALSE(subject.charge(one.cost(1, 3), kStart).admitted);
        subject.release(one.cost(1, 1), kStart);
        CHECK(subject.charge(one.cost(1, 3), kStart).admitted);
    });
}

TEST_CASE(
    "counts: booked moments are listed in order, a hundred at most, and a reset clears them") {
    over_every_store([&](auto& subject) {
        LimitSpec spec = spec_of(Algorithm::schedule, 1, 1min);
        spec.horizon = 24h;
        const One one(spec);
        for (int i = 150; i > 0; --i) {
            REQUIRE(subject.charge(one.cost(1, 1, kStart + i * 1min), kStart).admitted);
        }
        LimitCount count = one.count(subject, kStart);
        CHECK(count.counted == 150);
        REQUIRE(count.moments.size() == 100);
        CHECK(count.moments.front() == kStart + 1min);
        CHECK(count.moments.back() == kStart + 100min);
        CHECK_FALSE(count.denied);
        CHECK(one.count(subject, kStart + 1us).denied_for == 150min + 1min - 1us);
        CHECK(subject.forget({&one.item, 1}) == std::vector{true});
        count = one.count(subject, kStart);
        CHECK(count.counted == 0);
        CHECK(count.moments.empty());
        CHECK(subject.charge(one.cost(1, 1, kStart + 1min), kStart).admitted);
    });
}

TEST_CASE(
    "counts: an identifier that was never counted has everything left, and nothing to clear") {
    over_every_store([&](auto& subject) {
        const One one(spec_of(Algorithm::sliding_window, 3, 1s));
        const LimitCount count = one.count(subject, kStart);
        CHECK(count == LimitCount{.counted = 0, .remaining = 3});
        CHECK(subject.forget({&one.item, 1}) == std::vector{false});
    });
}

TEST_CASE("counts: limits of another tier are listed as unknown, and are cleared with the policy") {
    over_every_store([&](auto& subject) {
        limit::Policy some = policy("p", {sliding(3, 1s)});
        some.tiers.push_back({"pro", {sliding(9, 1h)}, 1});
        const std::vector<limit::ChargeItem> items{{&some, "user:a"},
                                                   {&some, "user:a", &some.tiers[0]}};
        const limit::ChargeItem as_pro = items[1];
        REQUIRE(subject.charge({{&as_pro, 1}, 4}, kStart).admitted);
        const Counts counts = subject.count(items, kStart);
        REQUIRE(counts.items.size() == 2);
        CHECK(counts.items[0].limits[0].counted == 0);
        REQUIRE(counts.items[0].others.size() == 1);
        CHECK(counts.items[0].others[0].id == some.tiers[0].limits[0].id);
        CHECK(counts.items[0].others[0].all_free > 59min);
        CHECK(counts.items[1].limits[0].counted == 4);
        CHECK(counts.items[1].others.empty());
        CHECK(subject.forget({items.data(), 1}) == std::vector{true});
        CHECK(subject.count(items, kStart).items[1].limits[0].counted == 0);
        REQUIRE(subject.charge({{&as_pro, 1}, 4}, kStart).admitted);
        CHECK(subject.forget(items) == std::vector{true, true});
    });
}

TEST_CASE("counts: a reset leaves other identifiers and other policies") {
    over_every_store([&](auto& subject) {
        const One one(spec_of(Algorithm::sliding_window, 3, 1h));
        const limit::Policy other = policy("q", {sliding(3, 1h)});
        const limit::ChargeItem bob{&one.some, "user:b"};
        const limit::ChargeItem under_other{&other, "user:a"};
        for (const limit::ChargeItem& item : {one.item, bob, under_other}) {
            REQUIRE(subject.charge({{&item, 1}, 2}, kStart).admitted);
        }
        CHECK(subject.forget({&one.item, 1}) == std::vector{true});
        CHECK(one.count(subject, kStart).counted == 0);
        CHECK(subject.count({&bob, 1}, kStart).items[0].limits[0].counted == 2);
        CHECK(subject.count({&under_other, 1}, kStart).items[0].limits[0].counted == 2);
    });
}

TEST_CASE("counts: what was taken before a reset cannot be given back after it") {
    over_every_store([&](auto& subject) {
        LimitSpec slots = spec_of(Algorithm::concurrency, 9, 0s);
        LimitSpec login = spec_of(Algorithm::sliding_window, 3, 1h);
        login.count = limit::Count::by_status;
        login.statuses = {401};
        const One one({made(login), made(slots)});
        const auto verdict = subject.charge(one.cost(2), kStart);
        REQUIRE(verdict.admitted);
        subject.forget({&one.item, 1});
        REQUIRE(subject.charge(one.cost(1, 2), kStart + 1ms).admitted);
        subject.give_back({one.cost(2), &verdict.receipt, limit::Refund::Of::status, 200},
                          kStart + 2ms);
        CHECK(one.count(subject, kStart + 2ms).counted == 1);
    });
}

TEST_CASE("redis: inspecting changes no key, no expiry and no value") {
    RedisSubject redis;
    LimitSpec schedule = spec_of(Algorithm::schedule, 3, 1min);
    schedule.horizon = 24h;
    const One one({sliding(3, 1h), made(schedule), made(spec_of(Algorithm::concurrency, 3, 0s)),
                   made(spec_of(Algorithm::gcra, 3, 1h))});
    redis.count({&one.item, 1}, kStart);
    CHECK(redis.text({"DBSIZE"}) == "0");
    REQUIRE(redis.charge(one.cost(1, 1, kStart + 1h), kStart).admitted);
    const std::string before = redis.text({"DEBUG", "DIGEST"});
    redis.count({&one.item, 1}, kStart + 30min);
    CHECK(redis.text({"DEBUG", "DIGEST"}) == before);
}

TEST_CASE("redis: inspecting a foreign value is an error, and a reset removes it") {
    RedisSubject redis;
    const One one(spec_of(Algorithm::sliding_window, 3, 1h));
    REQUIRE(redis.charge(one.cost(1), kStart).admitted);
    const std::string key = redis.text({"EVAL", "return redis.call('KEYS', '*')[1]", "0"});
    redis.text({"SET", key, "not ours"});
    CHECK_THROWS(redis.count({&one.item, 1}, kStart));
    CHECK(redis.forget({&one.item, 1}) == std::vector{true});
    CHECK(one.count(redis, kStart).counted == 0);
}

}  // namespace tidegate::test::counts_test

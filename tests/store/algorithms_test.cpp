// What limits.md promises of each algorithm and of their mixtures, over every store.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/stores.hpp"

namespace tidegate::test::algorithms_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Count;
using limit::kNever;
using limit::Refund;
using limit::Verdict;

constexpr Micros kMidnight{1'700'006'400'000'000};

limit::Limit of(Algorithm algorithm, std::int64_t quota, Micros duration) {
    return made(spec_of(algorithm, quota, duration));
}

limit::Limit schedule(std::int64_t quota, Micros duration, bool utc_day = false) {
    auto spec = spec_of(Algorithm::schedule, quota, duration);
    spec.utc_day = utc_day;
    return made(spec);
}

limit::Limit counting(limit::LimitSpec spec, Count count) {
    spec.count = count;
    if (count == Count::by_status) spec.statuses = {401, 403};
    return made(spec);
}

// One identifier under one policy, charged in each way there is.
struct Client {
    Subject& subject;
    const limit::Policy& counted;
    std::string name = "user:a";
    limit::ChargeItem item{&counted, name};

    limit::Charge charge(std::int64_t cost = 1, std::uint64_t hold = 0, Micros moment = {}) {
        return {{&item, 1}, cost, {1, hold}, moment};
    }
    Verdict ask(Micros now, std::int64_t cost = 1) { return subject.charge(charge(cost), now); }
    bool plans(Micros moment, Micros now = kStart, std::int64_t cost = 1) {
        return subject.charge(charge(cost, 0, moment), now).admitted;
    }
    bool enters(std::uint64_t hold, Micros now = kStart) {
        return subject.charge(charge(1, hold), now).admitted;
    }
    int admitted_of(int tries, Micros now) {
        int admitted = 0;
        for (int i = 0; i < tries; ++i) admitted += ask(now).admitted ? 1 : 0;
        return admitted;
    }
    void check_retry_is_exact(Micros now) {
        const Verdict denial = ask(now);
        REQUIRE_FALSE(denial.admitted);
        REQUIRE(denial.retry_after > 0us);
        REQUIRE(denial.retry_after != kNever);
        CHECK_FALSE(ask(now + denial.retry_after - 1us).admitted);
        CHECK(ask(now + denial.retry_after).admitted);
    }
};

}  // namespace

TEST_CASE("sliding_log: no interval of one duration ever holds more than the quota") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {of(Algorithm::sliding_log, 2, 1s)});
        Client client{subject, some};
        CHECK(client.admitted_of(1, kStart) == 1);
        CHECK(client.admitted_of(1, kStart + 999'998us) == 1);
        CHECK_FALSE(client.ask(kStart + 999'999us).admitted);
        CHECK(client.ask(kStart + 1s).admitted);
        client.check_retry_is_exact(kStart + 1s);
    });
}

TEST_CASE("fault 7: an emission is not rounded: three a second stay three, for ever") {
    over_every_store([](Subject& subject) {
        auto spec = spec_of(Algorithm::gcra, 3, 1s);
        spec.burst = 2;
        const auto some = policy("p", {made(spec)});
        Client client{subject, some};
        Micros now = kStart;
        REQUIRE(client.ask(now).admitted);
        for (int i = 0; i < 30; ++i) {
            REQUIRE(client.ask(now).admitted);
            now += client.ask(now).retry_after;
        }
        // The bucket was never empty, so no fraction got lost.
        CHECK(now - kStart == 10s);
    });
}

TEST_CASE("fault 7: a million per half second is a million") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {of(Algorithm::gcra, 1'000'000, 500ms)});
        Client client{subject, some};
        CHECK(client.ask(kStart, 1'000'000).admitted);
        CHECK_FALSE(client.ask(kStart).admitted);
        CHECK(client.ask(kStart + 1us).limits[0].remaining == 1);
    });
}

TEST_CASE("fault 6: a cost above the burst never passes and says so") {
    over_every_store([](Subject& subject) {
        for (const Algorithm algorithm : {Algorithm::gcra, Algorithm::leaky_bucket}) {
            const auto some = policy("p", {of(algorithm, 5, 1s)});
            Client client{subject, some};
            for (const std::int64_t cost :
                 {std::int64_t{6}, std::int64_t{1} << 32, std::int64_t{1} << 53,
                  std::numeric_limits<std::int64_t>::max()}) {
                const Verdict verdict = client.ask(kStart, cost);
                CHECK_FALSE(verdict.admitted);
                CHECK(verdict.retry_after == kNever);
            }
            CHECK(client.ask(kStart, 5).admitted);
        }
    });
}

TEST_CASE("leaky_bucket: the verdict says how long each is held, in turn") {
    over_every_store([](Subject& subject) {
        auto spec = spec_of(Algorithm::leaky_bucket, 10, 1s);
        spec.burst = 3;
        const auto some = policy("p", {made(spec)});
        Client client{subject, some};
        for (int i = 0; i < 4; ++i) {
            const Verdict verdict = client.ask(kStart);
            CHECK(verdict.admitted);
            CHECK(verdict.wait == i * 100ms);
        }
        client.check_retry_is_exact(kStart);
    });
}

TEST_CASE("leaky_bucket: the last in line gives its place back when it leaves") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {of(Algorithm::leaky_bucket, 10, 1s)});
        Client client{subject, some};
        REQUIRE(client.ask(kStart).admitted);
        const Verdict middle = client.ask(kStart + 1us);
        const Verdict last = client.ask(kStart + 2us);
        REQUIRE(last.wait == 199'998us);
        subject.give_back({client.charge(), &middle.receipt, Refund::Of::place}, kStart + 3us);
        subject.give_back({client.charge(), &last.receipt, Refund::Of::place}, kStart + 4us);
        CHECK(client.ask(kStart + 5us).wait == 199'995us);
    });
}

TEST_CASE("fault 8: one a minute, five an hour, ten a day, for moments asked in any order") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {schedule(1, 1min), schedule(5, 1h), schedule(10, 24h)});
        Client client{subject, some};
        const Micros now = kMidnight - 24h;
        int accepted = 0;
        std::vector<Micros> moments;
        // Backwards over midnight, every 30 s of six hours.
        for (Micros moment = kMidnight + 3h; moment > kMidnight - 3h; moment -= 30s) {
            if (!client.plans(moment, now)) continue;
            ++accepted;
            moments.push_back(moment);
        }
        CHECK(accepted == 10);
        for (std::size_t i = 5; i < moments.size(); ++i) CHECK(moments[i - 5] - moments[i] >= 1h);
    });
}

TEST_CASE("fault 8: two events of one second both count, on either side of midnight") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {schedule(2, 24h)});
        Client client{subject, some};
        const Micros now = kMidnight - 48h;
        CHECK(client.plans(kMidnight - 1us, now));
        CHECK(client.plans(kMidnight - 1us, now));
        CHECK_FALSE(client.plans(kMidnight, now));
        const Verdict denied = subject.charge(client.charge(1, 0, kMidnight + 5h), now);
        CHECK_FALSE(denied.admitted);
        CHECK(denied.retry_after == kNever);
        CHECK(denied.earliest == kMidnight + 24h - 1us);
        CHECK_FALSE(client.plans(denied.earliest - 1us, now));
        CHECK(client.plans(denied.earliest, now));
        // Before all of them, just as far.
        CHECK_FALSE(client.plans(kMidnight - 24h, now));
        CHECK(client.plans(kMidnight - 24h - 1us, now));
    });
}

TEST_CASE("schedule: a day of UTC ends at its midnight") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {schedule(1, 24h, true)});
        Client client{subject, some};
        const Micros now = kMidnight - 48h;
        CHECK(client.plans(kMidnight - 1us, now));
        CHECK_FALSE(client.plans(kMidnight - 24h, now));
        CHECK(client.plans(kMidnight, now));
        CHECK(subject.charge(client.charge(1, 0, kMidnight - 1h), now).earliest == kMidnight + 24h);
    });
}

TEST_CASE("concurrency: at most the quota in flight, the same slot only once") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {of(Algorithm::concurrency, 2, 0us)});
        Client client{subject, some};
        CHECK(client.enters(1));
        CHECK(client.enters(2));
        CHECK(client.enters(2));
        const Verdict denied = subject.charge(client.charge(1, 3), kStart);
        CHECK_FALSE(denied.admitted);
        CHECK(denied.retry_after == 1s);
        subject.release(client.charge(1, 1), kStart);
        subject.release(client.charge(1, 1), kStart);
        CHECK(client.enters(3));
        CHECK_FALSE(client.enters(4));
    });
}

TEST_CASE("concurrency: a slot that is kept after its request is given up when its time is over") {
    over_every_store([](KeepingSubject& subject) {
        const auto some = policy("p", {of(Algorithm::concurrency, 3, 0us)});
        Client client{subject, some};
        for (std::uint64_t i = 1; i <= 3; ++i) REQUIRE(client.enters(i));
        subject.keep(client.charge(1, 1), 5s, kStart);
        subject.keep(client.charge(1, 1), 9s, kStart + 1s);  // it has ended already
        subject.keep(client.charge(1, 2), 1s, kStart);
        subject.release(client.charge(1, 1), kStart);
        subject.keep(client.charge(1, 99), 5s, kStart);  // holds none
        CHECK_FALSE(client.enters(4, kStart + 1s - 1us));
        CHECK(client.enters(4, kStart + 1s));
        CHECK(subject.count({&client.item, 1}, kStart + 2s).items[0].limits[0].counted == 3);
        CHECK_FALSE(client.enters(5, kStart + 5s - 1us));
        CHECK(client.enters(5, kStart + 5s));
        CHECK_FALSE(client.enters(6, kStart + 5s));
        CHECK(subject.count({&client.item, 1}, kStart + 6s).items[0].limits[0].counted == 3);
    });
}

TEST_CASE("concurrency: a reset leaves slots that are kept after their requests") {
    over_every_store([](KeepingSubject& subject) {
        const auto some = policy("p", {of(Algorithm::concurrency, 1, 0us)});
        Client client{subject, some};
        REQUIRE(client.enters(1));
        subject.keep(client.charge(1, 1), 5s, kStart);
        CHECK_FALSE(subject.forget({&client.item, 1})[0]);
        CHECK_FALSE(client.enters(2, kStart + 5s - 1us));
        CHECK(client.enters(2, kStart + 5s));
    });
}

TEST_CASE(
    "count all: a client that retries stays denied, for a time counted from its last request") {
    over_every_store([](Subject& subject) {
        const auto some =
            policy("p", {counting(spec_of(Algorithm::sliding_log, 1, 10s), Count::all)});
        Client client{subject, some};
        CHECK(client.ask(kStart).admitted);
        const Verdict denied = client.ask(kStart + 5s);
        CHECK_FALSE(denied.admitted);
        CHECK(denied.retry_after == 10s);  // this very denial counts
        CHECK_FALSE(client.ask(kStart + 15s - 1us).admitted);
        CHECK_FALSE(client.ask(kStart + 15s).admitted);
        CHECK(client.ask(kStart + 25s).admitted);
    });
}

TEST_CASE("count all: a denial by another limit counts too, and others still count nothing") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {counting(spec_of(Algorithm::gcra, 5, 1h), Count::all),
                                       sliding(1, 1s), sliding(9, 1h)});
        Client client{subject, some};
        CHECK(client.admitted_of(5, kStart) == 1);
        const Verdict denied = client.ask(kStart + 1s);
        CHECK_FALSE(denied.admitted);
        CHECK(denied.limits[0].denied);
        CHECK(denied.limits[2].remaining == 8);
    });
}

TEST_CASE("count by status: units come back for other statuses, and stay taken for those named") {
    over_every_store([](Subject& subject) {
        for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::gcra}) {
            const auto some = policy("p", {counting(spec_of(algorithm, 2, 1h), Count::by_status)});
            Client client{subject, some, algorithm == Algorithm::gcra ? "user:a" : "user:b"};
            for (int i = 0; i < 20; ++i) {
                const Verdict verdict = client.ask(kStart);
                REQUIRE(verdict.admitted);
                subject.give_back({client.charge(), &verdict.receipt, Refund::Of::status, 200},
                                  kStart);
            }
            for (int i = 0; i < 2; ++i) {
                const Verdict verdict = client.ask(kStart);
                REQUIRE(verdict.admitted);
                subject.give_back({client.charge(), &verdict.receipt, Refund::Of::status, 401},
                                  kStart);
            }
            CHECK_FALSE(client.ask(kStart).admitted);
        }
    });
}

TEST_CASE("gcra: giving back what was held long lets no second burst through") {
    over_every_store([](Subject& subject) {
        auto spec = spec_of(Algorithm::gcra, 1, 1s);
        spec.burst = 4;
        const auto some = policy("p", {counting(spec, Count::by_status)});
        Client client{subject, some};
        const Verdict held = client.ask(kStart, 3);
        REQUIRE(held.admitted);
        int admitted = client.admitted_of(9, kStart + 2'900ms);
        subject.give_back({client.charge(3), &held.receipt, Refund::Of::status, 200},
                          kStart + 2'900ms);
        admitted += client.admitted_of(9, kStart + 2'900ms);
        CHECK(admitted <= 4);
    });
}

TEST_CASE("shadow policies never change the answer, and charge only what it admits") {
    over_every_store([](Subject& subject) {
        const auto enforced = policy("enforced", {sliding(3, 1h)});
        auto shadow = policy("shadow", {sliding(2, 1h)});
        shadow.shadow = true;
        const Ask both({{&enforced, "user:a"}, {&shadow, "user:a"}}, 1);
        for (int i = 0; i < 3; ++i) {
            const Verdict verdict = subject.charge(both, kStart);
            CHECK(verdict.admitted);
            CHECK(verdict.shadow_admitted == (i < 2));
            CHECK(verdict.retry_after == 0us);
        }
        CHECK_FALSE(subject.charge(both, kStart).admitted);
        CHECK(subject.charge(Ask(shadow, {"user:a"}, 0), kStart).limits[0].remaining == 0);
    });
}

TEST_CASE("limits of several algorithms take all or nothing") {
    over_every_store([](Subject& subject) {
        const auto some =
            policy("p", {sliding(9, 1h), of(Algorithm::gcra, 9, 1h),
                         of(Algorithm::sliding_log, 9, 1h), of(Algorithm::leaky_bucket, 9, 1min),
                         schedule(9, 1h), of(Algorithm::concurrency, 1, 0us)});
        Client client{subject, some};
        REQUIRE(client.enters(1));
        for (std::uint64_t i = 2; i < 12; ++i) REQUIRE_FALSE(client.enters(i));
        subject.release(client.charge(1, 1), kStart);
        const Verdict verdict = subject.charge(client.charge(1, 20), kStart);
        CHECK(verdict.admitted);
        for (const std::size_t i : {0, 1, 2, 4}) CHECK(verdict.limits[i].remaining == 7);
    });
}

}  // namespace tidegate::test::algorithms_test

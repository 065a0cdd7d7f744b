// What limits.md promises of windows, over every store.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/stores.hpp"

namespace tidegate::test::windows_test {
namespace {

using namespace std::chrono_literals;
using limit::Anchor;
using limit::kNever;
using limit::Verdict;

constexpr Micros kMinute{1'700'000'040'000'000};  // the beginning of one

}  // namespace

TEST_CASE("sliding_window: each answer says what is left and when the next unit is free") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(3, 1min, {.precision = 10s})});
        const Verdict first = subject.charge(Ask(some, {"user:a"}), kMinute + 4s);
        CHECK(first.limits[0].remaining == 2);
        CHECK(first.limits[0].next_unit == 56s);
        const Verdict second = subject.charge(Ask(some, {"user:a"}, 2), kMinute + 25s);
        CHECK(second.limits[0].remaining == 0);
        CHECK(second.limits[0].next_unit == 35s);
        const Verdict third = subject.charge(Ask(some, {"user:a"}, 2), kMinute + 26s);
        CHECK_FALSE(third.admitted);
        CHECK(third.limits[0].denied);
        CHECK(third.limits[0].next_unit == 34s);
        CHECK(third.retry_after == 54s);  // one unit is not enough: the second frees at 80 s
    });
}

TEST_CASE("sliding_window: strict never lets a full duration hold more than the quota") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(1, 1s, {.precision = 500ms, .strict = true})});
        REQUIRE(subject.charge(Ask(some, {"user:a"}), kMinute + 499ms).admitted);
        CHECK_FALSE(subject.charge(Ask(some, {"user:a"}), kMinute + 1'499'999us).admitted);
        CHECK(subject.charge(Ask(some, {"user:a"}), kMinute + 1'500ms).admitted);
    });
}

TEST_CASE("fixed_window: anchored to the clock it ends with the clock's window") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {fixed(1, 1min)});
        REQUIRE(subject.charge(Ask(some, {"user:a"}), kMinute + 59s).admitted);
        const Verdict denied = subject.charge(Ask(some, {"user:a"}), kMinute + 59s);
        CHECK(denied.retry_after == 1s);
        CHECK(subject.charge(Ask(some, {"user:a"}), kMinute + 60s).admitted);
    });
}

TEST_CASE("a cost of 0 takes nothing and opens no window") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {fixed(1, 10s, Anchor::first_request), sliding(0, 1s)});
        const Verdict asked = subject.charge(Ask(some, {"user:a"}, 0), kStart);
        CHECK(asked.admitted);
        CHECK(asked.limits[0].remaining == 1);
        CHECK(asked.limits[0].next_unit == 0us);
        CHECK(asked.limits[1].remaining == 0);
        const auto window = policy("p", {fixed(1, 10s, Anchor::first_request)});
        CHECK(subject.charge(Ask(window, {"user:a"}), kStart + 9s).limits[0].next_unit == 10s);
        CHECK(subject.charge(Ask(window, {"user:a"}, 0), kStart + 9s).admitted);
    });
}

TEST_CASE("a quota of 0 denies every cost and names no time") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(0, 1s)});
        const Verdict verdict = subject.charge(Ask(some, {"user:a"}), kStart);
        CHECK_FALSE(verdict.admitted);
        CHECK(verdict.retry_after == kNever);
    });
}

TEST_CASE("a quota that was lowered denies until enough units are free, and one raised admits") {
    over_every_store([](Subject& subject) {
        auto limits = [](std::int64_t quota) {
            return policy("p", {sliding(quota, 1min, {.precision = 10s})});
        };
        const auto wide = limits(10);
        const auto narrow = limits(4);
        REQUIRE(subject.charge(Ask(wide, {"user:a"}, 3), kMinute).admitted);
        REQUIRE(subject.charge(Ask(wide, {"user:a"}, 5), kMinute + 10s).admitted);
        const Verdict asked = subject.charge(Ask(narrow, {"user:a"}, 0), kMinute + 20s);
        CHECK_FALSE(asked.admitted);
        CHECK(asked.limits[0].remaining == 0);
        CHECK(asked.retry_after == 50s);
        CHECK(subject.charge(Ask(narrow, {"user:a"}), kMinute + 20s).retry_after == 50s);
        CHECK(subject.charge(Ask(wide, {"user:a"}, 2), kMinute + 20s).admitted);
    });
}

TEST_CASE("two tiers of one user do not erase each other's counts") {
    over_every_store([](Subject& subject) {
        const auto basic = policy("p", {sliding(2, 1min), sliding(9, 1h)});
        const auto pro = policy("p", {fixed(5, 1min), sliding(9, 1h)});
        REQUIRE(subject.charge(Ask(basic, {"user:a"}, 2), kMinute).admitted);
        for (int i = 0; i < 4; ++i) {
            REQUIRE(subject.charge(Ask(pro, {"user:a"}), kMinute + 1s).admitted);
            REQUIRE_FALSE(subject.charge(Ask(basic, {"user:a"}), kMinute + 1s).admitted);
        }
        const Verdict verdict = subject.charge(Ask(pro, {"user:a"}), kMinute + 2s);
        CHECK(verdict.limits[0].remaining == 0);
        CHECK(verdict.limits[1].remaining == 2);
    });
}

TEST_CASE("the limits of a policy may be written in another order") {
    over_every_store([](Subject& subject) {
        const auto one = policy("p", {sliding(5, 1s), sliding(6, 1min), sliding(7, 1h)});
        const auto other = policy("p", {sliding(7, 1h), sliding(5, 1s), sliding(6, 1min)});
        REQUIRE(subject.charge(Ask(one, {"user:a"}, 2), kMinute).admitted);
        REQUIRE(subject.charge(Ask(one, {"user:a"}, 2), kMinute + 5s).admitted);
        const Verdict verdict = subject.charge(Ask(other, {"user:a"}), kMinute + 5s);
        CHECK(verdict.limits[0].remaining == 2);
        CHECK(verdict.limits[1].remaining == 2);
        CHECK(verdict.limits[2].remaining == 1);
    });
}

TEST_CASE("several policies and identifiers are decided together, in the order asked") {
    over_every_store([](Subject& subject) {
        const auto first = policy("first", {sliding(5, 1s), sliding(6, 1min)});
        const auto second = policy("second", {sliding(2, 1s)});
        const Ask both({{&first, "ip:192.0.2.1"}, {&second, "user:a"}, {&first, "user:a"}}, 2);
        const Verdict admitted = subject.charge(both, kMinute);
        REQUIRE(admitted.limits.size() == 5);
        CHECK(admitted.limits[0].remaining == 3);
        CHECK(admitted.limits[1].remaining == 4);
        CHECK(admitted.limits[2].remaining == 0);
        CHECK(admitted.limits[3].remaining == 3);
        const Verdict denied = subject.charge(both, kMinute + 1ms);
        CHECK_FALSE(denied.admitted);
        CHECK(denied.limits[2].denied);
        CHECK_FALSE(denied.limits[0].denied);
        CHECK(denied.limits[4].remaining == 4);
    });
}

TEST_CASE("the largest quota is counted to its last unit") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(limit::kQuotaMax, 1h)});
        REQUIRE(subject.charge(Ask(some, {"user:a"}, limit::kQuotaMax - 1), kStart).admitted);
        CHECK_FALSE(subject.charge(Ask(some, {"user:a"}, 2), kStart + 2min).admitted);
        CHECK(subject.charge(Ask(some, {"user:a"}), kStart + 2min).limits[0].remaining == 0);
        // The totals wrap around; the differences stay right.
        CHECK(subject.charge(Ask(some, {"user:a"}, 7), kStart + 61min).limits[0].remaining ==
              limit::kQuotaMax - 8);
    });
}

TEST_CASE("where denied requests count, the largest quota is denied and stays so") {
    over_every_store([](Subject& subject) {
        for (const auto algorithm :
             {limit::Algorithm::sliding_window, limit::Algorithm::fixed_window}) {
            limit::LimitSpec spec;
            spec.algorithm = algorithm;
            spec.quota = limit::kQuotaMax;
            spec.duration = 1h;
            spec.count = limit::Count::all;
            const auto some = policy("p", {made(spec)});
            const std::string name = "user:" + std::to_string(static_cast<int>(algorithm));
            REQUIRE(subject.charge(Ask(some, {name}, limit::kQuotaMax), kStart).admitted);
            for (const std::int64_t cost : {std::int64_t{1}, std::int64_t{7}, limit::kQuotaMax}) {
                const Verdict denied = subject.charge(Ask(some, {name}, cost), kStart + 1min);
                CHECK_FALSE(denied.admitted);
                CHECK(denied.limits[0].denied);
                CHECK(denied.limits[0].remaining == 0);
                CHECK(denied.retry_after > 0us);
            }
        }
    });
}

TEST_CASE("retry_after is exact: one microsecond earlier is denied, then it passes") {
    over_every_store([](Subject& subject) {
        std::mt19937_64 random(20'231'114);
        const auto between = [&](int low, int high) {
            return std::uniform_int_distribution<int>{low, high}(random);
        };
        const auto some = policy("p", {sliding(9, 1s, {.precision = 130ms}),
                                       sliding(20, 7s, {.precision = 2s, .strict = true}),
                                       fixed(30, 11s, Anchor::first_request)});
        Micros now = kStart;
        int denials = 0;
        for (int i = 0; i < 600; ++i) {
            now += Micros{between(0, 400'000)};
            const Ask ask(some, {"user:a"}, between(1, 5));
            const Verdict verdict = subject.charge(ask, now);
            if (verdict.admitted) continue;
            ++denials;
            REQUIRE_FALSE(subject.charge(ask, now + verdict.retry_after - 1us).admitted);
            now += verdict.retry_after;
            REQUIRE(subject.charge(ask, now).admitted);
        }
        CHECK(denials > 50);
    });
}

}  // namespace tidegate::test::windows_test

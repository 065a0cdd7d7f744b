// The faults of published limiters (limits.md, at its end), each by name, over every store.
#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "store/stores.hpp"

namespace tidegate::test::faults_test {
namespace {

using namespace std::chrono_literals;
using limit::Anchor;
using limit::kNever;
using limit::Verdict;

// How many of `tries` requests pass at one moment.
int admitted_of(Subject& subject, const limit::Charge& charge, Micros now, int tries) {
    int admitted = 0;
    for (int i = 0; i < tries; ++i) admitted += subject.charge(charge, now).admitted ? 1 : 0;
    return admitted;
}

// Denied now, denied one microsecond before the time it names, admitted at that time.
void check_retry_is_exact(Subject& subject, const limit::Charge& charge, Micros now) {
    const Verdict denial = subject.charge(charge, now);
    REQUIRE_FALSE(denial.admitted);
    REQUIRE(denial.retry_after > 0us);
    REQUIRE(denial.retry_after != kNever);
    CHECK_FALSE(subject.charge(charge, now + denial.retry_after - 1us).admitted);
    CHECK(subject.charge(charge, now + denial.retry_after).admitted);
}

}  // namespace

TEST_CASE("fault 1: state outlives the last sub-bucket though the precision does not divide") {
    over_every_store([](Subject& subject) {
        // Three sub-buckets of 400 ms: the last reaches 200 ms over the window's edge.
        const auto some = policy("p", {sliding(2, 1s, {.precision = 400ms})});
        const Micros begin{1'700'000'000'000'000};
        REQUIRE(begin % 400ms == 0us);
        CHECK(admitted_of(subject, Ask(some, {"user:a"}), begin, 3) == 2);
        CHECK_FALSE(subject.charge(Ask(some, {"user:a"}), begin + 1'199'999us).admitted);
        CHECK(subject.charge(Ask(some, {"user:a"}), begin + 1'200'000us).admitted);
    });
}

TEST_CASE("fault 1: a call with short limits leaves what long limits counted") {
    over_every_store([](Subject& subject) {
        const auto with_long = policy("p", {sliding(3, 1h)});
        const auto with_short = policy("p", {sliding(5, 1s)});
        CHECK(admitted_of(subject, Ask(with_long, {"user:a"}), kStart, 5) == 3);
        CHECK(subject.charge(Ask(with_short, {"user:a"}), kStart + 1s).admitted);
        CHECK(subject.charge(Ask(with_short, {"user:a"}), kStart + 30s).admitted);
        CHECK_FALSE(subject.charge(Ask(with_long, {"user:a"}), kStart + 40s).admitted);
    });
}

TEST_CASE("fault 2: sub-second precision and a clock that steps back neither lock nor shrink") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(4, 100ms, {.precision = 10ms})});
        CHECK(admitted_of(subject, Ask(some, {"user:a"}), kStart, 2) == 2);
        // Back by less than a window: counted at the newest time known, not lost, not locked.
        CHECK(admitted_of(subject, Ask(some, {"user:a"}), kStart - 30ms, 9) == 2);
        CHECK(admitted_of(subject, Ask(some, {"user:a"}), kStart + 100ms, 9) == 4);
        CHECK(admitted_of(subject, Ask(some, {"user:a"}), kStart + 300ms, 9) == 4);
    });
}

TEST_CASE("fault 2: after a step back the named time is in the time of the caller") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(1, 10s, {.precision = 1s})});
        REQUIRE(subject.charge(Ask(some, {"user:a"}), kStart).admitted);
        check_retry_is_exact(subject, Ask(some, {"user:a"}), kStart - 5s);
    });
}

TEST_CASE("fault 3: thousands of idle sub-buckets are passed over at once") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(1'000, 1s, {.precision = 1ms})});
        const Micros begin{1'700'000'000'000'000};
        for (int i = 0; i < 1'000; ++i) {
            REQUIRE(subject.charge(Ask(some, {"user:a"}), begin + i * 1ms).admitted);
        }
        // Half of the marks have expired; a question neither forgets nor counts them.
        const Verdict half = subject.charge(Ask(some, {"user:a"}, 600), begin + 1'499ms);
        CHECK_FALSE(half.admitted);
        CHECK(half.limits[0].remaining == 500);
        CHECK(half.retry_after == 100ms);
        CHECK(subject.charge(Ask(some, {"user:a"}, 500), begin + 1'499ms).admitted);
        // A year later.
        CHECK(subject.charge(Ask(some, {"user:a"}, 1'000), begin + 8'760h).limits[0].remaining ==
              0);
    });
}

TEST_CASE("fault 4: fractions of a second and microsecond labels keep every digit") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(1, 1'001us, {.precision = 7us})});
        const Micros late{4'000'000'000'000'003};  // the year 2096, far above 1e15
        REQUIRE(subject.charge(Ask(some, {"user:a"}), late).admitted);
        check_retry_is_exact(subject, Ask(some, {"user:a"}), late + 1us);
    });
}

TEST_CASE("fault 5: limits of equal duration and precision count apart") {
    over_every_store([](Subject& subject) {
        auto first = sliding(2, 1min);
        const auto strict = sliding(4, 1min, {.precision = std::nullopt, .strict = true});
        REQUIRE(first.id != strict.id);
        const auto one = policy("one", {first});
        const auto other = policy("other", {first});
        const auto stricter = policy("one", {strict});
        CHECK(admitted_of(subject, Ask(one, {"user:a"}), kStart, 9) == 2);
        CHECK(admitted_of(subject, Ask(other, {"user:a"}), kStart, 9) == 2);
        CHECK(admitted_of(subject, Ask(one, {"user:b"}), kStart, 9) == 2);
        CHECK(admitted_of(subject, Ask(stricter, {"user:a"}), kStart, 9) == 4);
    });
}

TEST_CASE("fault 6: a cost above the quota never passes and says so") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(5, 1s), sliding(100, 1min)});
        const Verdict verdict = subject.charge(Ask(some, {"user:a"}, 6), kStart);
        CHECK_FALSE(verdict.admitted);
        CHECK(verdict.retry_after == kNever);
        CHECK(verdict.limits[0].denied);
        CHECK(verdict.limits[0].remaining == 5);
        CHECK(verdict.limits[0].next_unit == 0us);
        CHECK_FALSE(verdict.limits[1].denied);
        // Whatever the number: none may wrap around.
        for (std::int64_t cost :
             {std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1, std::int64_t{1} << 53,
              std::numeric_limits<std::int64_t>::max()}) {
            CHECK(subject.charge(Ask(some, {"user:a"}, cost), kStart).retry_after == kNever);
        }
        CHECK(subject.charge(Ask(some, {"user:a"}, 5), kStart).admitted);
    });
}

TEST_CASE("fault 7: a window opened by its first request closes by itself") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {fixed(2, 10s, Anchor::first_request)});
        CHECK(admitted_of(subject, Ask(some, {"user:a"}), kStart, 9) == 2);
        check_retry_is_exact(subject, Ask(some, {"user:a"}), kStart + 3s);
        // It opened again at kStart + 10 s.
        const Verdict verdict = subject.charge(Ask(some, {"user:a"}), kStart + 19'999'999us);
        CHECK(verdict.admitted);
        CHECK(verdict.limits[0].next_unit == 1us);
    });
}

TEST_CASE("fault 8: exactly the quota is admitted, never the one after it") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(5, 1h), fixed(7, 24h)});
        CHECK(admitted_of(subject, Ask(some, {"user:a"}), kStart, 50) == 5);
        CHECK(admitted_of(subject, Ask(some, {"user:a"}), kStart + 1h + 1min, 50) == 2);
    });
}

TEST_CASE("fault 9: requests over one limit take nothing from the others") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(1, 1s), sliding(10, 1h)});
        CHECK(admitted_of(subject, Ask(some, {"user:a"}), kStart, 200) == 1);
        const Verdict later = subject.charge(Ask(some, {"user:a"}), kStart + 2s);
        CHECK(later.admitted);
        CHECK(later.limits[1].remaining == 8);
    });
}

TEST_CASE("fault 9: a denial by one identifier takes nothing from the other") {
    over_every_store([](Subject& subject) {
        const auto some = policy("p", {sliding(3, 1min)});
        CHECK(admitted_of(subject, Ask(some, {"ip:192.0.2.1"}), kStart, 9) == 3);
        const Ask both(some, {"ip:192.0.2.1", "user:a"});
        CHECK(admitted_of(subject, both, kStart, 9) == 0);
        CHECK(subject.charge(Ask(some, {"user:a"}, 3), kStart).admitted);
    });
}

}  // namespace tidegate::test::faults_test

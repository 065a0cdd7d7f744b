// What limits.md promises of candidates and of policies that are enforced for a share of the
// identifiers, over every store.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/stores.hpp"

namespace tidegate::test::candidates_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Verdict;

// A policy and its candidate.
struct Pair {
    Pair(const std::string& name, std::vector<limit::Limit> live_limits,
         std::vector<limit::Limit> tried_limits)
        : live(policy(name, std::move(live_limits))),
          candidate(policy(name + "@candidate", std::move(tried_limits))) {
        live.has_candidate = true;
        candidate.shadow = true;
        candidate.candidate_of = &live;
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    limit::Policy live;
    limit::Policy candidate;
};

std::int64_t left(Subject& subject, const limit::Policy& one, Micros now = kStart) {
    auto copy = one;
    copy.candidate_of = nullptr;
    return subject.charge(Ask(copy, {"user:a"}, 0), now).limits[0].remaining;
}

}  // namespace

TEST_CASE("candidates: a laxer one counts requests that the live limits deny, up to its quota") {
    over_every_store([](Subject& subject) {
        const Pair pair("p", {sliding(2, 1h)}, {sliding(4, 1h)});
        const Ask both({{&pair.live, "user:a"}, {&pair.candidate, "user:a"}}, 1);
        for (int i = 0; i < 6; ++i) {
            const Verdict verdict = subject.charge(both, kStart);
            CHECK(verdict.admitted == (i < 2));
            CHECK(verdict.shadow_admitted);
            CHECK(verdict.limits.at(0).denied == (i >= 2));
            CHECK(verdict.limits.at(1).denied == (i >= 4));
            CHECK(verdict.limits.at(1).remaining == std::max(0, 3 - i));
        }
        CHECK(left(subject, pair.live) == 0);
        CHECK(left(subject, pair.candidate) == 0);
    });
}

TEST_CASE("candidates: a stricter one denies no request, and the live limits count on") {
    over_every_store([](Subject& subject) {
        const Pair pair("p", {sliding(4, 1h)}, {sliding(2, 1h)});
        const Ask both({{&pair.live, "user:a"}, {&pair.candidate, "user:a"}}, 1);
        for (int i = 0; i < 3; ++i) {
            const Verdict verdict = subject.charge(both, kStart);
            CHECK(verdict.admitted);
            CHECK(verdict.retry_after == 0us);
            CHECK(verdict.limits.at(1).denied == (i == 2));
        }
        CHECK(left(subject, pair.live) == 1);
    });
}

TEST_CASE("candidates: what another enforced policy denies, a candidate does not count") {
    over_every_store([](Subject& subject) {
        const Pair pair("p", {sliding(9, 1h)}, {sliding(9, 1h)});
        const auto other = policy("other", {sliding(1, 1h)});
        const Ask all({{&other, "user:a"}, {&pair.live, "user:a"}, {&pair.candidate, "user:a"}}, 1);
        CHECK(subject.charge(all, kStart).admitted);
        for (int i = 0; i < 3; ++i) CHECK_FALSE(subject.charge(all, kStart).admitted);
        CHECK(left(subject, pair.live) == 8);
        CHECK(left(subject, pair.candidate) == 8);
    });
}

TEST_CASE("candidates: two of one request and a policy in shadow are groups of their own") {
    over_every_store([](Subject& subject) {
        const Pair one("one", {sliding(9, 1h)}, {sliding(1, 1h)});
        const Pair two("two", {sliding(3, 1h)}, {sliding(9, 1h)});
        auto shadow = policy("shadow", {sliding(2, 1h)});
        shadow.shadow = true;
        const Ask all({{&one.live, "user:a"},
                       {&one.candidate, "user:a"},
                       {&shadow, "user:a"},
                       {&two.live, "user:a"},
                       {&two.candidate, "user:a"}},
                      1);
        int admitted = 0;
        int shadow_admitted = 0;
        for (int i = 0; i < 5; ++i) {
            const Verdict verdict = subject.charge(all, kStart);
            admitted += verdict.admitted ? 1 : 0;
            shadow_admitted += verdict.shadow_admitted ? 1 : 0;
        }
        CHECK(admitted == 3);
        CHECK(shadow_admitted == 2);
        CHECK(left(subject, one.candidate) == 0);
        // Its own policy denies the last two; the others admit them.
        CHECK(left(subject, two.candidate) == 4);
        CHECK(left(subject, shadow) == 0);
        CHECK(left(subject, one.live) == 6);
    });
}

TEST_CASE("candidates: with count: all, one counts what it denies, and that is all it changes") {
    over_every_store([](Subject& subject) {
        auto spec = spec_of(Algorithm::sliding_window, 2, 1h);
        spec.count = limit::Count::all;
        const Pair pair("p", {sliding(1, 1h)}, {made(spec)});
        const Ask both({{&pair.live, "user:a"}, {&pair.candidate, "user:a"}}, 1);
        for (int i = 0; i < 4; ++i) {
            const Verdict verdict = subject.charge(both, kStart);
            CHECK(verdict.admitted == (i == 0));
            CHECK(verdict.limits.at(1).denied == (i >= 2));
        }
        CHECK(left(subject, pair.live) == 0);
    });
}

// The same requests at the same times: the candidate beside live limits, and the limits live.
TEST_CASE("candidates: promoted, the limits decide each request as the candidate said") {
    over_every_store([](Subject& subject) {
        const std::vector<limit::Limit> tried{sliding(7, 10s),
                                              made(spec_of(Algorithm::gcra, 20, 1min))};
        const Pair pair("p", {sliding(5, 10s)}, tried);
        const auto promoted = policy("promoted", tried);
        const Ask before({{&pair.live, "user:a"}, {&pair.candidate, "user:a"}}, 1);
        const Ask after(promoted, {"user:a"});
        std::mt19937_64 random(44);
        Micros now = kStart;
        int changed = 0;
        for (int i = 0; i < 400; ++i) {
            now += Micros{std::uniform_int_distribution<std::int64_t>{0, 2'000'000}(random)};
            const Verdict verdict = subject.charge(before, now);
            const bool said = !verdict.limits.at(1).denied && !verdict.limits.at(2).denied;
            REQUIRE(subject.charge(after, now).admitted == said);
            changed += said != verdict.admitted ? 1 : 0;
        }
        CHECK(changed > 20);
    });
}

TEST_CASE("enforce: identifiers outside of the share are never refused, and counted alike") {
    over_every_store([](Subject& subject) {
        const auto live = policy("p", {sliding(2, 1h)});
        auto twin = live;
        twin.shadow = true;
        twin.twin_of = &live;
        const Ask outside(twin, {"user:a"});
        for (int i = 0; i < 4; ++i) {
            const Verdict verdict = subject.charge(outside, kStart);
            CHECK(verdict.admitted);
            CHECK(verdict.shadow_admitted == (i < 2));
        }
        // The share is raised: what was counted holds.
        CHECK_FALSE(subject.charge(Ask(live, {"user:a"}), kStart).admitted);
    });
}

}  // namespace tidegate::test::candidates_test

#include <chrono>
#include <limits>

#include <doctest/doctest.h>

#include "limit/gcra.hpp"

namespace tidegate::limit::gcra_test {
namespace {

using namespace std::chrono_literals;

constexpr Micros kBegin{1'700'000'000'000'000};

Limit bucket(std::int64_t quota, Micros duration, std::int64_t burst,
             Algorithm algorithm = Algorithm::gcra, Micros max_delay = kDelayMax) {
    LimitSpec spec;
    spec.algorithm = algorithm;
    spec.quota = quota;
    spec.duration = duration;
    spec.burst = burst;
    if (algorithm == Algorithm::leaky_bucket) spec.max_delay = max_delay;
    return *make_limit(spec);
}

struct Counter {
    explicit Counter(const Limit& counted) : flow(counted) {}

    ExactTime at(Micros now) const { return backlog_at(state, flow, now); }
    bool takes(Micros now, std::int64_t cost = 1) {
        if (!passes(flow, at(now), cost)) return false;
        take(state, flow, now, cost);
        return true;
    }
    std::int64_t remaining(Micros now) const { return verdict_of(flow, at(now), 0).remaining; }

    Flow flow;
    Bucket state;
};

}  // namespace

TEST_CASE("gcra: the time of units is exact, whatever the quota") {
    const Flow thirds(bucket(3, 1s, 10));
    CHECK(time_for(thirds, 1).us == 333'333);
    CHECK(time_for(thirds, 1).parts == 1);
    CHECK(time_for(thirds, 2).parts == 2);
    CHECK(time_for(thirds, 3).us == 1'000'000);
    CHECK(time_for(thirds, 3).parts == 0);
    const Flow fast(bucket(kQuotaMax, kDurationMax, kQuotaMax));
    CHECK(time_for(fast, kQuotaMax).us == kDurationMax.count());
    CHECK(time_for(fast, std::numeric_limits<std::int64_t>::max()).us == 2 * kDurationMax.count());
}

TEST_CASE("gcra: a million per half second is a million, not unlimited and not one less") {
    Counter counter(bucket(1'000'000, 500ms, 1'000'000));
    CHECK(counter.takes(kBegin, 1'000'000));
    CHECK_FALSE(counter.takes(kBegin));
    CHECK(counter.remaining(kBegin + 1us) == 2);
    CHECK_FALSE(counter.takes(kBegin + 1us, 3));
    CHECK(counter.takes(kBegin + 1us, 2));
    CHECK(counter.remaining(kBegin + 250ms) == 499'998);
}

TEST_CASE("gcra: one more than the burst is denied, with the exact time to return") {
    Counter counter(bucket(3, 1s, 4));
    for (int i = 0; i < 4; ++i) CHECK(counter.takes(kBegin));
    CHECK_FALSE(counter.takes(kBegin));
    const Micros retry = retry_after(counter.flow, counter.at(kBegin), 1);
    CHECK(retry == 333'334us);
    CHECK_FALSE(counter.takes(kBegin + retry - 1us));
    CHECK(counter.takes(kBegin + retry));
}

TEST_CASE("gcra: `remaining` grows by one at the stated time") {
    Counter counter(bucket(7, 1s, 5));
    CHECK(verdict_of(counter.flow, counter.at(kBegin), 0).remaining == 5);
    CHECK(verdict_of(counter.flow, counter.at(kBegin), 0).next_unit == 0us);
    const LimitVerdict after = verdict_of(counter.flow, counter.at(kBegin), 2);
    CHECK(after.remaining == 3);
    REQUIRE(counter.takes(kBegin, 2));
    CHECK(counter.remaining(kBegin + after.next_unit - 1us) == 3);
    CHECK(counter.remaining(kBegin + after.next_unit) == 4);
}

TEST_CASE("gcra: a cost above the burst never passes, whatever its size") {
    const Counter counter(bucket(10, 1s, 5));
    for (const std::int64_t cost : {std::int64_t{6}, std::int64_t{1} << 32, std::int64_t{1} << 53,
                                    std::numeric_limits<std::int64_t>::max()}) {
        CHECK_FALSE(passes(counter.flow, {}, cost));
        CHECK(retry_after(counter.flow, {}, cost) == kNever);
    }
}

TEST_CASE("gcra: a flood takes at most twice the burst") {
    Counter counter(bucket(1, 1s, 3));
    for (int i = 0; i < 1'000; ++i) take(counter.state, counter.flow, kBegin, 1'000'000);
    CHECK(counter.at(kBegin).us == 6'000'000);
    // A clock that steps back makes it no less.
    take(counter.state, counter.flow, kBegin - 1h, 1);
    CHECK(counter.at(kBegin).us == 6'000'000);
}

TEST_CASE("gcra: another quota takes the time over, a fraction rounded up") {
    Counter counter(bucket(3, 1s, 3));
    REQUIRE(counter.takes(kBegin));
    const ExactTime other = backlog_at(counter.state, bucket(4, 1s, 3), kBegin);
    CHECK(other.us == 333'334);
    CHECK(other.parts == 0);
    CHECK(counter.at(kBegin).us == 333'333);
    CHECK(counter.at(kBegin).parts == 1);
}

TEST_CASE("gcra: a share of 0 admits only a cost of 0") {
    const Flow share(bucket(5, 1s, 5), 6);
    CHECK(passes(share, {}, 0));
    CHECK_FALSE(passes(share, {}, 1));
    CHECK(retry_after(share, {}, 1) == kNever);
    CHECK(verdict_of(share, {}, 0).remaining == 0);
}

TEST_CASE("gcra: units given back at once are as if never taken") {
    Counter counter(bucket(3, 1s, 4));
    REQUIRE(counter.takes(kBegin));
    REQUIRE(counter.takes(kBegin + 1ms, 2));
    give_back(counter.state, counter.flow, kBegin + 1ms, 2, kBegin + 1ms);
    CHECK(counter.at(kBegin).us == 333'333);
    CHECK(counter.at(kBegin).parts == 1);
}

TEST_CASE("gcra: units that have leaked are not given back, nor any after the bucket was empty") {
    Counter counter(bucket(1, 1s, 4));
    REQUIRE(counter.takes(kBegin));
    REQUIRE(counter.takes(kBegin + 900ms));
    // Without the first unit the second would have 900 ms to go.
    give_back(counter.state, counter.flow, kBegin, 1, kBegin + 950ms);
    CHECK(counter.at(kBegin + 950ms).us == 1'000'000);
    give_back(counter.state, counter.flow, kBegin, 1, kBegin + 1'100ms);
    CHECK(counter.at(kBegin + 1'100ms).us == 850'000);
}

TEST_CASE("gcra: giving back many held units lets no second burst through") {
    Counter counter(bucket(1, 1s, 4));
    REQUIRE(counter.takes(kBegin, 3));
    int admitted = 0;
    while (counter.takes(kBegin + 2'900ms)) ++admitted;
    give_back(counter.state, counter.flow, kBegin, 3, kBegin + 2'900ms);
    while (counter.takes(kBegin + 2'900ms)) ++admitted;
    CHECK(admitted <= 4);
}

TEST_CASE("leaky_bucket: requests are held in turn, up to the burst and the longest delay") {
    Counter counter(bucket(10, 1s, 3, Algorithm::leaky_bucket));
    for (int i = 0; i < 4; ++i) {
        CHECK(wait_of(counter.at(kBegin)) == i * 100ms);
        CHECK(counter.takes(kBegin));
    }
    CHECK_FALSE(counter.takes(kBegin));
    CHECK(retry_after(counter.flow, counter.at(kBegin), 1) == 100ms);
    CHECK_FALSE(counter.takes(kBegin + 100ms - 1us));
    CHECK(counter.takes(kBegin + 100ms));

    Counter brief(bucket(3, 1s, 100, Algorithm::leaky_bucket, 666'666us));
    CHECK(brief.takes(kBegin, 2));  // the next would wait 666,666 2/3 us
    CHECK_FALSE(brief.takes(kBegin));
    CHECK(retry_after(brief.flow, brief.at(kBegin), 1) == 1us);
    CHECK(brief.takes(kBegin + 1us));
}

TEST_CASE("leaky_bucket: remaining is how many would pass one by one") {
    Counter counter(bucket(10, 1s, 3, Algorithm::leaky_bucket));
    CHECK(counter.remaining(kBegin) == 4);
    REQUIRE(counter.takes(kBegin, 2));
    const LimitVerdict now = verdict_of(counter.flow, counter.at(kBegin), 0);
    CHECK(now.remaining == 2);
    CHECK(now.next_unit == 100ms);
}

TEST_CASE("leaky_bucket: only the last in line gives its place back") {
    Counter counter(bucket(10, 1s, 5, Algorithm::leaky_bucket));
    REQUIRE(counter.takes(kBegin));
    REQUIRE(counter.takes(kBegin + 1us));
    give_back(counter.state, counter.flow, kBegin, 1, kBegin + 2us);
    CHECK(counter.at(kBegin).us == 200'000);
    give_back(counter.state, counter.flow, kBegin + 1us, 1, kBegin + 2us);
    CHECK(counter.at(kBegin).us == 100'000);
    // If it is sent again, another request is last.
    give_back(counter.state, counter.flow, kBegin + 1us, 1, kBegin + 2us);
    CHECK(counter.at(kBegin).us == 100'000);
}

TEST_CASE("leaky_bucket: of two requests that came together neither is the last") {
    Counter counter(bucket(10, 1s, 5, Algorithm::leaky_bucket));
    REQUIRE(counter.takes(kBegin));
    REQUIRE(counter.takes(kBegin));
    give_back(counter.state, counter.flow, kBegin, 1, kBegin);
    CHECK(counter.at(kBegin).us == 200'000);
    REQUIRE(counter.takes(kBegin + 1us));
    give_back(counter.state, counter.flow, kBegin + 1us, 1, kBegin + 1us);
    CHECK(counter.at(kBegin).us == 200'000);
}

}  // namespace tidegate::limit::gcra_test

// Counts that another process takes over.
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "store/memory_store.hpp"

namespace tidegate::store::memory_store_saved_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Micros;

constexpr Micros kBegin{1'700'000'000'000'000};

limit::Limit limit_of(Algorithm algorithm, std::int64_t quota, Micros duration) {
    limit::LimitSpec spec;
    spec.algorithm = algorithm;
    spec.quota = quota;
    spec.duration = duration;
    if (algorithm == Algorithm::schedule) spec.horizon = 1h;
    return *limit::make_limit(spec);
}

// A limit of each algorithm, where the clock frees units.
limit::Policy policy_of_all() {
    limit::Policy policy;
    policy.name = "all";
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    policy.limits = {limit_of(Algorithm::sliding_window, 50, 1min),
                     limit_of(Algorithm::fixed_window, 60, 1h),
                     limit_of(Algorithm::sliding_log, 70, 1min),
                     limit_of(Algorithm::gcra, 80, 1min), limit_of(Algorithm::schedule, 90, 1min)};
    limit::LimitSpec money;
    money.quota = limit::kMoneyMax;
    money.duration = 1min;
    money.in_money = true;
    policy.limits.push_back(*limit::make_limit(money));
    money.algorithm = Algorithm::fixed_window;
    money.anchor = limit::Anchor::utc_month;
    money.duration = Micros{0};
    policy.limits.push_back(*limit::make_limit(money));
    return policy;
}

limit::Policy policy_of(limit::Limit limit) {
    limit::Policy policy;
    policy.name = "p";
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    policy.limits = {std::move(limit)};
    return policy;
}

struct Rig {
    explicit Rig(std::size_t max_keys = 1'000) : store({.max_keys = max_keys}) {}

    limit::Verdict ask(const limit::Policy& policy, std::string_view identifier, Micros now,
                       std::int64_t cost = 1, std::uint64_t request = 0) {
        const limit::ChargeItem item{&policy, identifier};
        limit::Verdict verdict;
        store.charge({.items = {&item, 1},
                      .cost = cost,
                      .slot_hold = {.holder = 1, .request = request},
                      .moment = now},
                     now, verdict);
        return verdict;
    }
    std::string saved() const {
        std::string bytes;
        store.save([&](std::string_view piece) { bytes += piece; });
        return bytes;
    }

    MemoryStore store;
};

void check_same(const limit::Verdict& one, const limit::Verdict& other) {
    CHECK(one.admitted == other.admitted);
    CHECK(one.retry_after == other.retry_after);
    REQUIRE(one.limits.size() == other.limits.size());
    for (std::size_t i = 0; i < one.limits.size(); ++i) {
        CAPTURE(i);
        CHECK(one.limits[i].remaining == other.limits[i].remaining);
        CHECK(one.limits[i].next_unit == other.limits[i].next_unit);
        CHECK(one.limits[i].denied == other.limits[i].denied);
    }
}

}  // namespace

TEST_CASE(
    "memory_store saved: another store decides as the one that was saved, by each algorithm") {
    const limit::Policy policy = policy_of_all();
    Rig former;
    Micros now = kBegin;
    // Over several sub-buckets, so that windows have marks, in a ring that has gone round.
    for (int i = 0; i < 200; ++i) {
        now += 1'700ms;
        former.ask(policy, "ip:192.0.2." + std::to_string(i % 3), now);
    }
    Rig next;
    REQUIRE(next.store.load(former.saved(), now) == 3);
    CHECK(next.store.keys() == 3);
    for (int i = 0; i < 300; ++i) {
        CAPTURE(i);
        now += 350ms;
        const std::string identifier = "ip:192.0.2." + std::to_string(i % 4);
        check_same(next.ask(policy, identifier, now), former.ask(policy, identifier, now));
    }
}

TEST_CASE("memory_store saved: a used-up limit stays used up, and names with any byte are kept") {
    const limit::Policy policy = policy_of(limit_of(Algorithm::sliding_window, 2, 1h));
    const std::string identifier = std::string("user:a\0b", 8) + "\n\xff";
    Rig former;
    former.ask(policy, identifier, kBegin, 2);
    Rig next;
    CHECK(next.store.load(former.saved(), kBegin) == 1);
    CHECK_FALSE(next.ask(policy, identifier, kBegin + 1s).admitted);
    CHECK(next.ask(policy, "user:a", kBegin + 1s).admitted);
}

TEST_CASE("memory_store saved: what has expired by then is left out") {
    const limit::Policy policy = policy_of(limit_of(Algorithm::sliding_window, 2, 1s));
    Rig former;
    former.ask(policy, "user:a", kBegin);
    Rig next;
    CHECK(next.store.load(former.saved(), kBegin + 1h) == 0);
    CHECK(next.store.keys() == 0);
}

TEST_CASE("memory_store saved: slots of requests in flight stay with their process") {
    const limit::Policy policy = policy_of(limit_of(Algorithm::concurrency, 1, limit::kSlotTime));
    Rig former;
    CHECK(former.ask(policy, "user:flies", kBegin, 1, 7).admitted);
    CHECK_FALSE(former.ask(policy, "user:flies", kBegin, 1, 8).admitted);
    // Kept after its request, until then.
    CHECK(former.ask(policy, "user:kept", kBegin, 1, 9).admitted);
    const limit::ChargeItem item{&policy, "user:kept"};
    former.store.release({.items = {&item, 1}, .slot_hold = {.holder = 1, .request = 9}},
                         kBegin + 10s);
    Rig next;
    CHECK(next.store.load(former.saved(), kBegin) == 1);
    CHECK(next.ask(policy, "user:flies", kBegin, 1, 10).admitted);
    CHECK_FALSE(next.ask(policy, "user:kept", kBegin + 9s, 1, 11).admitted);
    CHECK(next.ask(policy, "user:kept", kBegin + 11s, 1, 12).admitted);
}

TEST_CASE("memory_store saved: a smaller store takes as many as it has room for") {
    const limit::Policy policy = policy_of(limit_of(Algorithm::sliding_window, 2, 1h));
    Rig former;
    for (int i = 0; i < 900; ++i) former.ask(policy, "user:" + std::to_string(i), kBegin);
    Rig next(100);
    CHECK(next.store.load(former.saved(), kBegin).has_value());
    CHECK(next.store.keys() <= 100);
    CHECK(next.store.keys() >= 50);
}

TEST_CASE("memory_store saved: bytes that end early, or mean something else, are refused") {
    const limit::Policy policy = policy_of_all();
    Rig former;
    for (int i = 0; i < 20; ++i) former.ask(policy, "ip:192.0.2.1", kBegin + i * 1s);
    const std::string bytes = former.saved();
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        CAPTURE(size);
        Rig next;
        CHECK_FALSE(next.store.load(std::string_view(bytes).substr(0, size), kBegin).has_value());
    }
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        CAPTURE(at);
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ 0x55);
        Rig next;
        CHECK_FALSE(next.store.load(changed, kBegin).has_value());
    }
    Rig next;
    CHECK_FALSE(next.store.load(bytes + "x", kBegin).has_value());
    CHECK(next.store.load(bytes, kBegin).has_value());
}

}  // namespace tidegate::store::memory_store_saved_test

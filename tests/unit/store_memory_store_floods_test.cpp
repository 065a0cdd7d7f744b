// What a flood of new names does to the counts of the in-process store, as docs/limits.md states.
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/memory_store.hpp"

namespace tidegate::store::memory_store_floods_test {
namespace {

using namespace std::chrono_literals;
using limit::Micros;
using Outcome = MemoryStore::Outcome;

constexpr Micros kBegin{1'700'000'000'000'000};
constexpr std::size_t kMaxKeys = 4'000;

limit::Limit made(std::int64_t quota, Micros duration,
                  limit::Algorithm algorithm = limit::Algorithm::sliding_window) {
    limit::LimitSpec spec;
    spec.algorithm = algorithm;
    spec.quota = quota;
    spec.duration = duration;
    return *limit::make_limit(spec);
}

limit::Policy policy(std::string name, std::vector<limit::Limit> limits) {
    limit::Policy policy;
    policy.name = std::move(name);
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    policy.limits = std::move(limits);
    return policy;
}

MemoryStore::Options bounded(std::size_t max_keys, OnFull on_full = OnFull::evict) {
    MemoryStore::Options options;
    options.max_keys = max_keys;
    options.on_full = on_full;
    return options;
}

struct Client {
    MemoryStore& store;
    const limit::Policy& counted;
    limit::Verdict verdict{};

    Outcome ask(std::string_view identifier, Micros now, std::int64_t cost = 1,
                std::uint64_t request = 0) {
        const limit::ChargeItem item{&counted, identifier};
        return store.charge({.items = {&item, 1}, .cost = cost, .slot_hold = {1, request}}, now,
                            verdict);
    }
    bool passes(std::string_view identifier, Micros now, std::int64_t cost = 1) {
        return ask(identifier, now, cost) == Outcome::decided && verdict.admitted;
    }
    // Each of `names` new names asks until it is refused, or `units` times.
    void flood(std::size_t names, Micros now, std::int64_t units = 1) {
        for (std::size_t i = 0; i < names; ++i) {
            const std::string name = "flood" + std::to_string(i);
            for (std::int64_t unit = 0; unit < units; ++unit) ask(name, now + 1us * i);
        }
    }
};

}  // namespace

TEST_CASE("memory_store: names of another policy push out no exhausted login count") {
    for (const bool shadow : {false, true}) {
        CAPTURE(shadow);
        MemoryStore store(bounded(kMaxKeys));
        const auto logins = policy("logins", {made(5, 15min)});
        auto flooded = policy("flooded", {made(1, 24h), made(2, 1s)});
        flooded.shadow = shadow;
        Client guesser{store, logins};
        Client flood{store, flooded};
        // Also after the flood has filled all there is: then the policy takes its share back.
        flood.flood(2 * kMaxKeys, kBegin);
        for (int i = 0; i < 50; ++i) REQUIRE(guesser.passes("user" + std::to_string(i), kBegin, 5));
        flood.flood(3 * kMaxKeys, kBegin + 1min);
        for (int i = 0; i < 50; ++i) {
            CAPTURE(i);
            CHECK_FALSE(guesser.passes("user" + std::to_string(i), kBegin + 2min));
        }
        CHECK(store.keys() <= kMaxKeys);
    }
}

TEST_CASE("memory_store: a quota of one: names as heavy and newer push out no older one") {
    using limit::Algorithm;
    for (const Algorithm algorithm : {Algorithm::sliding_window, Algorithm::fixed_window,
                                      Algorithm::sliding_log, Algorithm::gcra}) {
        CAPTURE(std::string(limit::traits_of(algorithm).name));
        MemoryStore store(bounded(kMaxKeys));
        const auto some = policy("p", {made(1, 1h, algorithm)});
        Client client{store, some};
        for (int i = 0; i < 100; ++i) REQUIRE(client.passes("old" + std::to_string(i), kBegin));
        client.flood(3 * kMaxKeys, kBegin + 1min);
        CHECK(store.evictions() > kMaxKeys);
        for (int i = 0; i < 100; ++i) {
            CAPTURE(i);
            CHECK_FALSE(client.passes("old" + std::to_string(i), kBegin + 2min));
        }
    }
}

TEST_CASE("memory_store: units that are back in a second weigh less than those held for long") {
    MemoryStore store(bounded(kMaxKeys));
    // In one policy: each name of the flood has used up the second, none the quarter of an hour.
    const auto both = policy("both", {made(1, 1s), made(2, 15min)});
    Client client{store, both};
    for (int i = 0; i < 100; ++i) {
        const std::string name = "old" + std::to_string(i);
        REQUIRE(client.passes(name, kBegin));
        REQUIRE(client.passes(name, kBegin + 2s));
    }
    client.flood(3 * kMaxKeys, kBegin + 3s);
    for (int i = 0; i < 100; ++i) {
        CAPTURE(i);
        CHECK_FALSE(client.passes("old" + std::to_string(i), kBegin + 1min));
    }
}

TEST_CASE("memory_store: above its share, a policy of seconds yields to one of minutes") {
    MemoryStore store(bounded(kMaxKeys));
    const auto brief = policy("brief", {made(1, 1s)});
    const auto lasting = policy("lasting", {made(2, 15min)});
    const auto third = policy("third", {made(5, 1h)});
    Client seconds{store, brief};
    Client minutes{store, lasting};
    Client{store, third}.flood(200, kBegin);
    seconds.flood(2 * kMaxKeys, kBegin);
    const std::size_t names = kMaxKeys * 2 / 5;  // more than a third
    for (std::size_t i = 0; i < names; ++i) {
        REQUIRE(minutes.passes("user" + std::to_string(i), kBegin, 2));
    }
    seconds.flood(3 * kMaxKeys, kBegin);
    for (std::size_t i = 0; i < names; ++i) {
        REQUIRE_FALSE(minutes.passes("user" + std::to_string(i), kBegin));
    }
}

TEST_CASE("memory_store: a name stays until an eighth of its policy's names is newer") {
    MemoryStore store(bounded(63));  // one shard
    const auto some = policy("p", {made(5, 1h)});
    Client client{store, some};
    for (int i = 0; i < 500; ++i) {
        REQUIRE(client.passes("heavy" + std::to_string(i), kBegin, 5));
    }
    for (int round = 0; round < 50; ++round) {
        const std::string name = "light" + std::to_string(round);
        REQUIRE(client.passes(name, kBegin));
        for (int i = 0; i < 63 / 8 - 1; ++i) {
            REQUIRE(client.passes("new" + std::to_string(100 * round + i), kBegin, 5));
        }
        REQUIRE(client.passes(name, kBegin));
        CHECK(client.verdict.limits[0].remaining == 3);
    }
}

TEST_CASE("memory_store: a policy takes its share from one that has filled the store") {
    MemoryStore store(bounded(kMaxKeys));
    const auto first = policy("first", {made(1, 24h)});
    const auto second = policy("second", {made(10, 1s)});
    Client before{store, first};
    Client after{store, second};
    before.flood(2 * kMaxKeys, kBegin);
    const std::size_t fits = kMaxKeys / 4;  // max_keys / (2 * policies)
    for (std::size_t i = 0; i < fits; ++i) REQUIRE(after.passes(std::to_string(i), kBegin));
    before.flood(2 * kMaxKeys, kBegin);
    for (std::size_t i = 0; i < fits; ++i) {
        REQUIRE(after.passes(std::to_string(i), kBegin));
        REQUIRE(after.verdict.limits[0].remaining == 8);
    }
}

TEST_CASE("memory_store: names of a policy that is gone make room first") {
    MemoryStore store(bounded(kMaxKeys));
    const auto gone = policy("gone", {made(1, 24h)});
    const auto stays = policy("stays", {made(5, 1s)});
    Client former{store, gone};
    Client client{store, stays};
    former.flood(kMaxKeys / 2, kBegin);
    const std::vector<std::string_view> configured{"stays", "other"};
    store.set_policies(configured);
    // More than half, which the former policy has left free. Names spread unevenly over the shards:
    // of 3/4 of all, one shard would sometimes get more than it holds.
    const std::size_t names = kMaxKeys * 5 / 8;
    for (std::size_t i = 0; i < names; ++i) REQUIRE(client.passes(std::to_string(i), kBegin));
    std::size_t known = 0;
    for (std::size_t i = 0; i < names; ++i) {
        REQUIRE(client.passes(std::to_string(i), kBegin));
        known += client.verdict.limits[0].remaining == 3 ? 1 : 0;
    }
    CHECK(known == names);
}

TEST_CASE("memory_store: where all is held, only new names are refused, whichever policy's") {
    MemoryStore store(bounded(63));
    const auto slots = policy("slots", {made(1, 0s, limit::Algorithm::concurrency)});
    const auto other = policy("other", {made(1, 1h)});
    Client holder{store, slots};
    Client client{store, other};
    for (int i = 0; i < 63; ++i) {
        REQUIRE(holder.ask("held" + std::to_string(i), kBegin, 1, 1) == Outcome::decided);
    }
    CHECK(client.ask("new", kBegin) == Outcome::full);
    CHECK(holder.ask("more", kBegin, 1, 1) == Outcome::full);
    for (int i = 0; i < 63; ++i) {
        REQUIRE(holder.ask("held" + std::to_string(i), kBegin, 1, 2) == Outcome::decided);
        CHECK_FALSE(holder.verdict.admitted);
    }
    const limit::ChargeItem item{&slots, "held7"};
    store.release({.items = {&item, 1}, .slot_hold = {1, 1}});
    bool passes = false;  // it is found, if not at the first look
    for (int i = 0; i < 3; ++i) passes = passes || client.passes("new", kBegin);
    CHECK(passes);
}

TEST_CASE("memory_store: where one policy's names are all in flight, others make room") {
    for (int round = 0; round < 5; ++round) {  // names spread anew
        MemoryStore store(bounded(1'000));
        const auto slots = policy("c", {made(1, 0s, limit::Algorithm::concurrency)});
        const auto windows = policy("w", {made(5, 1h)});
        const auto logins = policy("login", {made(5, 15min)});
        Client holder{store, slots};
        Client filler{store, windows};
        Client guesser{store, logins};
        for (int i = 0; i < 600; ++i) {
            REQUIRE(holder.ask("held" + std::to_string(i), kBegin, 1, 1) == Outcome::decided);
        }
        filler.flood(2'000, kBegin);
        for (int i = 0; i < 60; ++i) {
            CAPTURE(i);
            REQUIRE(guesser.passes("user" + std::to_string(i), kBegin));
        }
        // What is in flight is still counted.
        for (int i = 0; i < 600; ++i) {
            REQUIRE(holder.ask("held" + std::to_string(i), kBegin, 1, 2) == Outcome::decided);
            REQUIRE_FALSE(holder.verdict.admitted);
        }
    }
}

TEST_CASE("memory_store: what requests in flight leave, policies share; these push out no more") {
    MemoryStore store(bounded(63));  // one shard
    const auto slots = policy("c", {made(1, 0s, limit::Algorithm::concurrency)});
    const auto windows = policy("w", {made(5, 1h)});
    const auto logins = policy("login", {made(5, 15min)});
    auto watched = policy("watched", {made(5, 15min)});
    watched.shadow = true;
    Client holder{store, slots};
    Client filler{store, windows};
    Client guesser{store, logins};
    for (int i = 0; i < 51; ++i) {
        REQUIRE(holder.ask("held" + std::to_string(i), kBegin, 1, 1) == Outcome::decided);
    }
    for (int i = 0; i < 12; ++i) REQUIRE(filler.passes("filler" + std::to_string(i), kBegin));
    // Less than the share of either.
    for (int i = 0; i < 6; ++i) REQUIRE(guesser.passes("user" + std::to_string(i), kBegin, 5));
    CHECK(store.evictions() == 6);
    CHECK(holder.ask("one more", kBegin, 1, 1) == Outcome::full);
    Client{store, watched}.flood(20, kBegin);
    CHECK(store.evictions() == 6);
    for (int i = 0; i < 6; ++i) CHECK_FALSE(guesser.passes("user" + std::to_string(i), kBegin));
}

TEST_CASE("memory_store: a name that may go is found behind hundreds that may not") {
    const auto slots = policy("slots", {made(1, 0s, limit::Algorithm::concurrency)});
    const auto other = policy("other", {made(1, 1h)});
    for (const char* name : {"held100", "held300", "held590"}) {
        CAPTURE(std::string(name));
        MemoryStore store(bounded(63));
        store.set_bounds(600, OnFull::evict);  // still one shard
        Client holder{store, slots};
        Client client{store, other};
        for (int i = 0; i < 600; ++i) {
            REQUIRE(holder.ask("held" + std::to_string(i), kBegin, 1, 1) == Outcome::decided);
        }
        CHECK(client.ask("new", kBegin) == Outcome::full);
        const limit::ChargeItem item{&slots, name};
        store.release({.items = {&item, 1}, .slot_hold = {1, 1}});
        bool passes = false;  // it is found, if not at the first look
        for (int i = 0; i < 4; ++i) passes = passes || client.passes("new", kBegin);
        CHECK(passes);
    }
}

TEST_CASE("memory_store: units that were given back weigh nothing") {
    MemoryStore store(bounded(63));
    const auto some = policy("p", {made(2, 1h)});
    Client client{store, some};
    std::vector<limit::Receipt> receipts;
    for (int i = 0; i < 20; ++i) {
        REQUIRE(client.passes("back" + std::to_string(i), kBegin, 2));
        receipts.push_back(client.verdict.receipt);
    }
    for (int i = 0; i < 43; ++i) REQUIRE(client.passes("kept" + std::to_string(i), kBegin));
    for (int i = 0; i < 20; ++i) {
        const std::string name = "back" + std::to_string(i);
        const limit::ChargeItem item{&some, name};
        store.give_back({.charge = {{&item, 1}, 2}, .receipt = &receipts[std::size_t(i)]}, kBegin);
    }
    for (int i = 0; i < 3; ++i) REQUIRE(client.passes("new" + std::to_string(i), kBegin, 2));
    for (int i = 0; i < 43; ++i) {
        REQUIRE(client.passes("kept" + std::to_string(i), kBegin));
        CHECK(client.verdict.limits[0].remaining == 0);
    }
}

// Random traces against what docs/limits.md promises for a policy within its share: with at most as
// many names as always fit, no unit beyond the quota, whatever the other policies do.
TEST_CASE("memory_store: random floods of other policies admit nothing beyond a quota") {
    for (unsigned seed = 0; seed < 5; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        MemoryStore store(bounded(kMaxKeys));
        const auto guarded = policy("guarded", {made(3, 1h)});
        const std::vector<limit::Policy> others{policy("a", {made(1, 24h)}),
                                                policy("b", {made(100, 1s), made(2, 2h)}),
                                                policy("c", {made(7, 15min)})};
        Client client{store, guarded};
        std::map<int, int> admitted;
        for (int step = 0; step < 40'000; ++step) {
            const auto& other = others[random() % others.size()];
            Client{store, other}.ask(std::to_string(random() % 30'000), kBegin + step * 1ms,
                                     1 + static_cast<std::int64_t>(random() % 2));
            if (random() % 4 != 0) continue;
            const int name = static_cast<int>(random() % (kMaxKeys / 16));
            if (client.passes(std::to_string(name), kBegin + step * 1ms)) ++admitted[name];
        }
        CHECK(store.evictions() > 1'000);
        for (const auto& [name, units] : admitted) REQUIRE(units <= 3);
    }
}

}  // namespace tidegate::store::memory_store_floods_test

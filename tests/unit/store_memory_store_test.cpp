#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "store/memory_store.hpp"
#include "store/memory_store_shard.hpp"

namespace tidegate::store::memory_store_test {

using namespace std::chrono_literals;
using limit::Micros;

namespace {

using Outcome = MemoryStore::Outcome;

constexpr Micros kBegin{1'700'000'000'000'000};

limit::Policy policy(std::int64_t quota, Micros duration) {
    limit::Policy policy;
    policy.name = "p";
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    limit::LimitSpec spec;
    spec.quota = quota;
    spec.duration = duration;
    policy.limits = {*limit::make_limit(spec)};
    return policy;
}

MemoryStore::Options bounded(std::size_t max_keys, OnFull on_full = OnFull::evict) {
    MemoryStore::Options options;
    options.max_keys = max_keys;
    options.on_full = on_full;
    return options;
}

// Charges one identifier. The verdict is left in `verdict`.
struct Client {
    MemoryStore& store;
    const limit::Policy& counted;
    limit::Verdict verdict{};

    Outcome ask(std::string_view identifier, Micros now, std::int64_t cost = 1) {
        const limit::ChargeItem item{&counted, identifier};
        return store.charge({{&item, 1}, cost}, now, verdict);
    }
    bool passes(std::string_view identifier, Micros now, std::int64_t cost = 1) {
        return ask(identifier, now, cost) == Outcome::decided && verdict.admitted;
    }
};

}  // namespace

TEST_CASE("memory_store: only units that are taken make a key") {
    MemoryStore store(bounded(100));
    const auto some = policy(3, 1min);
    Client client{store, some};
    CHECK(client.passes("a", kBegin, 0));
    CHECK_FALSE(client.passes("b", kBegin, 4));
    CHECK(store.keys() == 0);
    CHECK(client.passes("a", kBegin));
    CHECK(client.passes("a", kBegin));
    CHECK(store.keys() == 1);
}

TEST_CASE("memory_store: to load names ahead changes nothing") {
    MemoryStore store(bounded(100));
    const limit::Policy counted = policy(2, 1h);
    Client client{store, counted};
    const auto load = [&](std::string_view identifier) {
        const limit::ChargeItem item{&counted, identifier};
        MemoryStore::Ahead ahead;
        while (ahead.step < MemoryStore::Ahead::kSteps) store.load_ahead(item, ahead);
        return ahead.state != nullptr;
    };
    CHECK_FALSE(load("a"));
    CHECK(store.keys() == 0);
    CHECK(client.passes("a", kBegin));
    CHECK(load("a"));
    CHECK_FALSE(load("b"));
    CHECK(client.passes("a", kBegin));
    CHECK(load("a"));
    CHECK_FALSE(client.passes("a", kBegin));
    CHECK(store.keys() == 1);
}

TEST_CASE("memory_store: at max_keys expired names go first, and that is no eviction") {
    MemoryStore store(bounded(10));
    const auto brief = policy(3, 1s);
    const auto lasting = policy(3, 1h);
    Client some{store, brief};
    Client other{store, lasting};
    for (int i = 0; i < 5; ++i) REQUIRE(other.passes("long" + std::to_string(i), kBegin));
    for (int i = 0; i < 5; ++i) REQUIRE(some.passes("short" + std::to_string(i), kBegin));
    REQUIRE(store.keys() == 10);
    for (int i = 0; i < 5; ++i) REQUIRE(other.passes("new" + std::to_string(i), kBegin + 2s));
    CHECK(store.keys() <= 10);
    CHECK(store.evictions() == 0);
    for (int i = 0; i < 5; ++i) {
        CHECK(other.passes("long" + std::to_string(i), kBegin + 2s));
        CHECK(other.verdict.limits[0].remaining == 1);
    }
}

TEST_CASE("memory_store: an expired name that makes room before a sweep is no eviction") {
    MemoryStore store(bounded(63));
    store.set_bounds(600, OnFull::evict);  // still one shard
    const auto brief = policy(3, 1s);
    const auto lasting = policy(3, 1h);
    Client some{store, brief};
    Client other{store, lasting};
    for (int i = 0; i < 600; ++i) REQUIRE(some.passes("short" + std::to_string(i), kBegin));
    store.set_bounds(10, OnFull::evict);
    // More than one sweep finds.
    REQUIRE(other.passes("new", kBegin + 2s));
    REQUIRE(store.keys() > 10);
    CHECK(store.evictions() == 0);
    // Those that have not expired count.
    MemoryStore small(bounded(10));
    Client third{small, lasting};
    for (int i = 0; i < 11; ++i) REQUIRE(third.passes("long" + std::to_string(i), kBegin));
    CHECK(small.evictions() == 1);
}

TEST_CASE("memory_store: a flood of new names evicts its own entries, not those near the limit") {
    MemoryStore store(bounded(50));
    const auto some = policy(10, 1h);
    Client client{store, some};
    REQUIRE(client.passes("guesser", kBegin, 10));
    for (int i = 0; i < 5'000; ++i) REQUIRE(client.passes("name" + std::to_string(i), kBegin));
    CHECK(store.keys() == 50);
    CHECK(store.evictions() == 5'001 - 50);
    CHECK_FALSE(client.passes("guesser", kBegin));
}

TEST_CASE("memory_store: on_full deny refuses new names only, and only while it is full") {
    MemoryStore store(bounded(4, OnFull::deny));
    const auto some = policy(10, 1min);
    Client client{store, some};
    for (const char* name : {"a", "b", "c", "d"}) REQUIRE(client.passes(name, kBegin));
    CHECK(client.ask("e", kBegin) == Outcome::full);
    CHECK(client.passes("a", kBegin));
    CHECK(client.passes("e", kBegin, 0));
    CHECK(store.keys() == 4);
    CHECK(client.passes("e", kBegin + 2min));
    CHECK(store.evictions() == 0);
}

TEST_CASE("memory_store: a charge that finds no room for one name takes from none") {
    MemoryStore store(bounded(2, OnFull::deny));
    const auto some = policy(2, 1min);
    Client client{store, some};
    REQUIRE(client.passes("a", kBegin));
    const std::vector<limit::ChargeItem> items{{&some, "a"}, {&some, "b"}, {&some, "c"}};
    limit::Verdict verdict;
    CHECK(store.charge({items, 1}, kBegin, verdict) == Outcome::full);
    CHECK(store.keys() == 1);
    CHECK(client.passes("a", kBegin));
    CHECK(client.verdict.limits[0].remaining == 0);
}

TEST_CASE("memory_store: evicting makes no room for a name at the cost of its own charge") {
    MemoryStore store(bounded(2));
    const auto some = policy(2, 1min);
    const std::vector<limit::ChargeItem> items{{&some, "a"}, {&some, "b"}, {&some, "c"}};
    limit::Verdict verdict;
    CHECK(store.charge({items, 1}, kBegin, verdict) == Outcome::full);
    CHECK(store.keys() == 0);
}

TEST_CASE("memory_store: each process admits its share, rounded down") {
    MemoryStore::Options options;
    options.divisor = 3;
    MemoryStore store(options);
    const auto some = policy(10, 1min);
    Client client{store, some};
    CHECK(client.passes("a", kBegin));
    CHECK(client.verdict.limits[0].remaining == 2);
    CHECK(client.passes("a", kBegin, 2));
    CHECK_FALSE(client.passes("a", kBegin));
    CHECK_FALSE(client.passes("b", kBegin, 4));
    CHECK(client.verdict.retry_after == limit::kNever);
    store.set_divisor(1);
    CHECK(client.passes("a", kBegin, 7));
    store.set_divisor(20);  // a share of nothing
    CHECK_FALSE(client.passes("c", kBegin));
    CHECK_FALSE(client.passes("a", kBegin, 0));
}

TEST_CASE("memory_store: a hundred thousand names are found again") {
    MemoryStore store(bounded(200'000));
    const auto some = policy(2, 1h);
    Client client{store, some};
    for (int i = 0; i < 100'000; ++i) REQUIRE(client.passes(std::to_string(i), kBegin));
    CHECK(store.keys() == 100'000);
    for (int i = 0; i < 100'000; ++i) {
        REQUIRE(client.passes(std::to_string(i), kBegin));
        REQUIRE(client.verdict.limits[0].remaining == 0);
    }
    CHECK(store.keys() == 100'000);
}

TEST_CASE("memory_store: names that expired make room before the table grows") {
    MemoryStore store(bounded(100'000));
    const auto some = policy(2, 1s);
    Client client{store, some};
    for (int i = 0; i < 50'000; ++i) {
        REQUIRE(client.passes(std::to_string(i), kBegin + i * 100ms));
    }
    CHECK(store.keys() < 5'000);
}

TEST_CASE("memory_store: a policy and an identifier do not run into each other") {
    MemoryStore store(bounded(100));
    auto one = policy(1, 1min);
    auto other = policy(1, 1min);
    one.name = "ab";
    other.name = "a";
    Client first{store, one};
    Client second{store, other};
    CHECK(first.passes("c", kBegin));
    CHECK(second.passes("bc", kBegin));
}

TEST_CASE("memory_store: eight threads admit exactly the quota") {
    MemoryStore store(bounded(1'000));
    const auto some = policy(10'000, 1h);
    std::atomic<int> admitted{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            const std::string own = "own" + std::to_string(t);
            limit::Verdict verdict;
            for (int i = 0; i < 3'000; ++i) {
                // In both orders: locks are taken in that of the shards, or this would hang.
                std::vector<limit::ChargeItem> items{{&some, "shared"}, {&some, own}};
                if (t % 2 == 1) std::swap(items[0], items[1]);
                REQUIRE(store.charge({items, 1}, kBegin, verdict) == Outcome::decided);
                if (verdict.admitted) admitted.fetch_add(1);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(admitted == 10'000);
}

TEST_CASE(
    "memory_store: slots are neither evicted nor do they expire, and releasing twice is once") {
    MemoryStore store(bounded(2));
    auto some = policy(2, 1s);
    limit::LimitSpec spec;
    spec.algorithm = limit::Algorithm::concurrency;
    spec.quota = 1;
    some.limits.push_back(*limit::make_limit(spec));
    const auto other = policy(9, 1h);
    Client crowd{store, other};
    limit::Verdict verdict;
    const limit::ChargeItem item{&some, "held"};
    const auto asks = [&](std::uint64_t request, Micros now) {
        REQUIRE(store.charge({.items = {&item, 1}, .slot_hold = {1, request}}, now, verdict) ==
                Outcome::decided);
        return verdict.admitted;
    };
    CHECK(asks(1, kBegin));
    CHECK(asks(1, kBegin));  // the same slot
    for (int i = 0; i < 100; ++i) {
        REQUIRE(crowd.ask("name" + std::to_string(i), kBegin + 1h) == Outcome::decided);
    }
    CHECK_FALSE(asks(2, kBegin + 2h));
    CHECK(verdict.retry_after == 1s);
    store.release({.items = {&item, 1}, .slot_hold = {1, 2}});  // holds none
    CHECK_FALSE(asks(2, kBegin + 2h));
    store.release({.items = {&item, 1}, .slot_hold = {1, 1}});
    store.release({.items = {&item, 1}, .slot_hold = {1, 1}});
    CHECK(asks(2, kBegin + 2h));
    CHECK_FALSE(asks(1, kBegin + 2h));
}

TEST_CASE("memory_store: a slot that is kept after its request is not swept before its time") {
    MemoryStore store(bounded(4));
    limit::LimitSpec spec;
    spec.algorithm = limit::Algorithm::concurrency;
    spec.quota = 1;
    auto some = policy(1, 1h);
    some.name = "slots";
    some.limits = {*limit::make_limit(spec)};
    const auto other = policy(9, 1h);
    Client crowd{store, other};
    limit::Verdict verdict;
    const limit::ChargeItem item{&some, "held"};
    const auto asks = [&](std::uint64_t request, Micros now) {
        REQUIRE(store.charge({.items = {&item, 1}, .slot_hold = {1, request}}, now, verdict) ==
                Outcome::decided);
        return verdict.admitted;
    };
    CHECK(asks(1, kBegin));
    store.release({.items = {&item, 1}, .slot_hold = {1, 1}}, kBegin + 5s);
    for (int i = 0; i < 100; ++i) {
        REQUIRE(crowd.ask("name" + std::to_string(i), kBegin + 4s) == Outcome::decided);
    }
    CHECK_FALSE(asks(2, kBegin + 5s - 1us));
    for (int i = 0; i < 100; ++i) {
        REQUIRE(crowd.ask("more" + std::to_string(i), kBegin + 5s) == Outcome::decided);
    }
    CHECK(store.keys() <= 4);
    CHECK(asks(2, kBegin + 5s));
}

TEST_CASE("memory_store: nothing is given back to a state that was made anew") {
    MemoryStore store(bounded(1));
    const auto some = policy(2, 1h);
    Client client{store, some};
    REQUIRE(client.passes("a", kBegin));
    const limit::Receipt before = client.verdict.receipt;
    REQUIRE(client.passes("b", kBegin));  // a is evicted
    REQUIRE(client.passes("a", kBegin, 2));
    const limit::ChargeItem item{&some, "a"};
    store.give_back({.charge = {{&item, 1}, 1}, .receipt = &before}, kBegin);
    CHECK_FALSE(client.passes("a", kBegin));
    const limit::Receipt denied = client.verdict.receipt;
    store.give_back({.charge = {{&item, 1}, 1}, .receipt = &denied}, kBegin);
    CHECK_FALSE(client.passes("a", kBegin));
}

TEST_CASE("memory_store: without room for the shadow group the request is decided without it") {
    MemoryStore store(bounded(1, OnFull::deny));
    const auto some = policy(2, 1h);
    auto shadow = policy(2, 1h);
    shadow.name = "shadow";
    shadow.shadow = true;
    const std::vector<limit::ChargeItem> items{{&some, "a"}, {&shadow, "a"}};
    limit::Verdict verdict;
    for (const bool expected : {true, true, false}) {
        REQUIRE(store.charge({items, 1}, kBegin, verdict) == Outcome::decided);
        CHECK(verdict.admitted == expected);
    }
    CHECK(store.keys() == 1);
}

TEST_CASE("memory_store: a tier without limits counts nothing") {
    MemoryStore store(bounded(1));
    auto some = policy(0, 1h);
    some.tiers.push_back({.name = "internal", .limits = {}});
    const limit::ChargeItem item{&some, "a", &some.tiers[0]};
    limit::Verdict verdict;
    REQUIRE(store.charge({{&item, 1}, 1}, kBegin, verdict) == Outcome::decided);
    CHECK(verdict.admitted);
    CHECK(verdict.limits.empty());
    CHECK(store.keys() == 0);
}

TEST_CASE("memory_store: in place of another store it admits no schedule") {
    MemoryStore::Options options;
    options.stands_in = true;
    MemoryStore store(options);
    limit::LimitSpec spec;
    spec.algorithm = limit::Algorithm::schedule;
    spec.quota = 5;
    spec.duration = 1min;
    spec.horizon = 1h;
    auto some = policy(9, 1h);
    some.limits = {*limit::make_limit(spec)};
    Client client{store, some};
    CHECK_FALSE(client.passes("a", kBegin));
    CHECK(client.verdict.retry_after == limit::kNever);
    CHECK(client.verdict.earliest == 0us);
    store.set_divisor(1);
    CHECK_FALSE(client.passes("a", kBegin));  // not even alone
}

TEST_CASE("memory_store: other bounds keep what is counted, and shrink it as new names come") {
    MemoryStore store(bounded(1'000));
    const auto some = policy(3, 1h);
    Client client{store, some};
    for (int i = 0; i < 600; ++i) REQUIRE(client.passes("n" + std::to_string(i), kBegin));
    CHECK(client.passes("kept", kBegin, 3));

    store.set_bounds(200, OnFull::deny);
    CHECK(store.keys() == 601);
    CHECK_FALSE(client.passes("kept", kBegin + 1s));
    CHECK(client.ask("new", kBegin + 1s) == Outcome::full);

    store.set_bounds(200, OnFull::evict);
    for (int i = 0; i < 4'000; ++i) {
        REQUIRE(client.passes("m" + std::to_string(i), kBegin + 1s));
        REQUIRE(store.keys() <= 601);
    }
    CHECK(store.keys() <= 200);

    store.set_bounds(100'000, OnFull::deny);
    for (int i = 0; i < 2'000; ++i) {
        CHECK(client.ask("o" + std::to_string(i), kBegin + 1s) == Outcome::decided);
    }
}

namespace {

// A table and the names that it should hold, with hashes of which many share buckets.
struct TableRig {
    static StateName name_of(const std::string& identifier, std::uint64_t hash) {
        StateName name{};
        name.policy = "p";
        name.identifier = identifier;
        name.hash = hash;
        return name;
    }

    void insert(std::uint64_t number, std::uint64_t hash) {
        const std::string identifier = "user:" + std::to_string(number);
        auto state = std::make_unique<State>();
        state->name = "p" + std::string(1, '\0') + identifier;
        state->hash = hash;
        model.emplace(identifier, state.get());
        table.insert(std::move(state));
    }
    void erase(std::map<std::string, State*>::iterator place) {
        table.erase(*place->second);
        model.erase(place);
    }
    std::set<const State*> walk() const {
        std::set<const State*> found;
        for (std::size_t bucket = 0; bucket < table.buckets(); ++bucket) {
            for (State* state = table.first(bucket); state != nullptr; state = state->next.get()) {
                CHECK(found.insert(state).second);
            }
        }
        return found;
    }

    StateTable table;
    std::map<std::string, State*> model;
};

}  // namespace

TEST_CASE("memory_store_table: holds what a map holds, whatever comes and goes") {
    std::mt19937_64 random(7);
    // Of few hashes many names share a bucket; of many, buckets have one name or none.
    for (const std::uint64_t hashes : {std::uint64_t{3}, std::uint64_t{1} << 40}) {
        TableRig rig;
        for (std::uint64_t step = 0; step < 6'000; ++step) {
            if (rig.model.empty() || random() % 4 != 0) {
                rig.insert(step, (random() % hashes) << 8);
                continue;
            }
            auto place = rig.model.lower_bound("user:" + std::to_string(random() % step));
            rig.erase(place == rig.model.end() ? rig.model.begin() : place);
        }
        for (const auto& [identifier, state] : rig.model) {
            CHECK(rig.table.find(TableRig::name_of(identifier, state->hash)) == state);
        }
        CHECK(rig.table.find(TableRig::name_of("user:none", 0)) == nullptr);
        CHECK(rig.walk().size() == rig.model.size());
    }
}

TEST_CASE("memory_store_table: a name adds two buckets at most, however many there are") {
    TableRig rig;
    std::mt19937_64 random(8);
    std::size_t before = rig.table.buckets();
    for (std::uint64_t number = 0; number < 20'000; ++number) {
        const bool grows = rig.table.grows_next();
        rig.insert(number, random());
        const std::size_t added = rig.table.buckets() - before;
        CHECK(added <= 2);
        CHECK((added != 0) == grows);
        before = rig.table.buckets();
    }
    CHECK(rig.table.buckets() >= 2 * rig.model.size());
    CHECK(rig.walk().size() == rig.model.size());
}

}  // namespace tidegate::store::memory_store_test

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "unit/balance_world.hpp"

namespace tidegate::balance::hash_test {
namespace {

constexpr std::size_t kKeys = 100'000;

struct Hashed {
    explicit Hashed(const std::vector<int>& weights)
        : world(weights, {.failures = 1}), choice(10s) {
        choice.reset(world.list);
    }

    std::size_t of(std::uint64_t key, const ServerState* other_than = nullptr) {
        return *choice.choose(now, key, other_than);
    }
    // Where each key goes.
    std::vector<std::size_t> all() {
        std::vector<std::size_t> places;
        for (std::uint64_t key = 0; key < kKeys; ++key) places.push_back(of(key));
        return places;
    }

    World world;
    Hash choice;
    SteadyTime now = kBegin;
};

std::vector<double> parts(const std::vector<std::size_t>& places, std::size_t servers) {
    std::vector<double> counts(servers);
    for (const std::size_t place : places) counts[place] += 1.0 / kKeys;
    return counts;
}

}  // namespace

TEST_CASE("hash: keys spread over the servers as the weights say") {
    for (const auto& weights :
         {std::vector<int>{1, 1, 1}, {1, 2, 3}, {10, 1, 1, 1}, std::vector<int>(16, 5)}) {
        const auto found = parts(Hashed(weights).all(), weights.size());
        double sum = 0;
        for (const int weight : weights) sum += weight;
        for (std::size_t i = 0; i < weights.size(); ++i) {
            // Three standard deviations.
            const double part = weights[i] / sum;
            CHECK(std::abs(found[i] - part) < 3 * std::sqrt(part * (1 - part) / kKeys));
        }
    }
}

TEST_CASE("hash: the same key goes to the same server, in every worker") {
    Hashed one({1, 2, 3});
    Hashed other({1, 2, 3});
    CHECK(one.all() == other.all());
    CHECK(one.all() == one.all());
    // Whatever the order of the list.
    std::vector<ServerState*> turned{one.world.list[2], one.world.list[0], one.world.list[1]};
    Hash choice;
    choice.reset(turned);
    for (std::uint64_t key = 0; key < 1'000; ++key) {
        CHECK(turned[*choice.choose(kBegin, key)] == one.world.list[one.of(key)]);
    }
}

TEST_CASE("hash: where a server goes, only its own keys move, and they come back with it") {
    for (const auto& weights : {std::vector<int>{1, 1, 1, 1}, {3, 1, 2, 2}}) {
        Hashed hashed(weights);
        const auto before = hashed.all();
        hashed.world.check(1, false);
        const auto after = hashed.all();
        std::size_t moved = 0;
        std::size_t of_it = 0;
        for (std::size_t key = 0; key < kKeys; ++key) {
            moved += after[key] != before[key];
            of_it += before[key] == 1;
        }
        CHECK(std::find(after.begin(), after.end(), 1) == after.end());
        CHECK(of_it > 0);
        CHECK(moved == of_it);
        hashed.world.check(1, true, 2);
        hashed.now = kBegin + 10s;
        CHECK(hashed.all() == before);
    }
}

TEST_CASE("hash: where a server comes, it takes keys, and no others move") {
    Hashed hashed({1, 1, 1});
    const auto before = hashed.all();
    hashed.world.servers.push_back(std::make_shared<ServerState>(123'456, 1));
    hashed.world.list.push_back(hashed.world.servers.back().get());
    hashed.choice.reset(hashed.world.list);
    const auto after = hashed.all();
    int moved_elsewhere = 0;
    for (std::size_t key = 0; key < kKeys; ++key) {
        moved_elsewhere += after[key] != 3 && after[key] != before[key];
    }
    CHECK(moved_elsewhere == 0);
    CHECK(parts(after, 4)[3] == doctest::Approx(0.25).epsilon(0.05));
}

TEST_CASE("hash: in slow start, keys return one after the other and none goes back and forth") {
    Hashed hashed({1, 1, 1});
    const auto before = hashed.all();
    hashed.world.check(0, false);
    hashed.world.check(0, true, 2);
    std::vector<bool> is_back(kKeys);
    int strays = 0;
    for (int second = 0; second <= 10; ++second) {
        hashed.now = kBegin + std::chrono::seconds(second);
        const auto places = hashed.all();
        for (std::size_t key = 0; key < kKeys; ++key) {
            strays += is_back[key] && places[key] != 0;
            strays += before[key] != 0 && places[key] != before[key];
            is_back[key] = places[key] == 0;
        }
        const double share = 0.1 + 0.09 * second;
        CHECK(parts(places, 3)[0] == doctest::Approx(share / (share + 2)).epsilon(0.05));
    }
    CHECK(strays == 0);
}

TEST_CASE("hash: no server has more than 1.25 of its part, however unequal keys are") {
    for (const auto& weights : {std::vector<int>{1, 1, 1, 1}, {4, 2, 1, 1}, {1, 1}}) {
        Hashed hashed(weights);
        double sum = 0;
        for (const int weight : weights) sum += weight;
        std::minstd_rand random(1);
        for (int requests = 1; requests <= 2'000; ++requests) {
            // Nine of ten requests have one key.
            const std::size_t place = hashed.of(random() % 10 != 0 ? 7 : random());
            hashed.world.at(place).begin_request();
            const double most = std::ceil(1.25 * requests * weights[place] / sum);
            REQUIRE(hashed.world.at(place).active() <= most);
        }
    }
}

TEST_CASE(
    "hash: a key that is passed on goes to the next of its servers, and back when there is room") {
    Hashed hashed({1, 1, 1});
    const std::uint64_t key = 42;
    const std::size_t first = hashed.of(key);
    const std::size_t second = hashed.of(key, &hashed.world.at(first));
    hashed.world.begin_requests(first, 3);
    CHECK(hashed.of(key) == second);
    hashed.world.begin_requests(second, 3);
    const std::size_t third = 3 - first - second;
    CHECK(hashed.of(key) == third);
    hashed.world.begin_requests(third, 3);
    CHECK(hashed.of(key) == first);
}

TEST_CASE("hash: with few requests, none is passed over for one") {
    Hashed hashed(std::vector<int>(8, 1));
    for (std::uint64_t key = 0; key < 1'000; ++key) {
        const std::size_t place = hashed.of(key);
        hashed.world.at((place + 1) % 8).begin_request();
        CHECK(hashed.of(key) == place);
        hashed.world.at((place + 1) % 8).end_request();
    }
}

TEST_CASE("hash: a server that just failed the request is not chosen, nor one that is out") {
    Hashed hashed({1, 1, 1});
    for (std::uint64_t key = 0; key < 1'000; ++key) {
        CHECK(hashed.of(key, &hashed.world.at(1)) != 1);
    }
    hashed.world.fail(0, kBegin, 1);
    hashed.world.check(1, false);
    for (std::uint64_t key = 0; key < 1'000; ++key) {
        CHECK(hashed.of(key) == 2);
        CHECK(hashed.of(key, &hashed.world.at(2)) == 0);
    }
    hashed.world.check(2, false);
    CHECK(hashed.of(1) == 0);  // only ejected
    hashed.world.check(0, false);
    CHECK_FALSE(hashed.choice.choose(kBegin, 1));
    Hash none;
    CHECK_FALSE(none.choose(kBegin, 1));
}

TEST_CASE("hash: a server that could not be connected to gives its keys away for a second") {
    World world({1, 1, 1}, HealthSettings{});
    Hash choice;
    choice.reset(world.list);
    const Chosen first = choice.choose(kBegin, 7);
    world.fail(*first, kBegin, 1, ServerFailure::connect);
    CHECK(choice.choose(kBegin, 7) != first);
    CHECK(choice.choose(kBegin + 1s, 7) == first);
}

}  // namespace tidegate::balance::hash_test

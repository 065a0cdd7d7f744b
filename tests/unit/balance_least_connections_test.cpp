#include <algorithm>
#include <deque>
#include <vector>

#include <doctest/doctest.h>

#include "unit/balance_world.hpp"

namespace tidegate::balance::least_connections_test {
namespace {

struct Fewest {
    explicit Fewest(const std::vector<int>& weights, std::uint64_t seed = 1)
        : world(weights, {.failures = 1}), choice(seed, 10s) {
        choice.reset(world.list);
    }

    Chosen choose(const ServerState* other_than = nullptr) {
        return choice.choose(now, other_than);
    }
    // Requests of which `at_once` are in flight at a time. Returns those of each in the end.
    std::vector<int> load(std::size_t at_once, int requests) {
        std::vector<int> active(world.list.size());
        std::deque<std::size_t> begun;
        for (int i = 0; i < requests; ++i) {
            if (begun.size() == at_once) {
                world.at(begun.front()).end_request();
                --active[begun.front()];
                begun.pop_front();
            }
            begun.push_back(*choose());
            world.at(begun.back()).begin_request();
            ++active[begun.back()];
        }
        return active;
    }

    World world;
    LeastConnections choice;
    SteadyTime now = kBegin;
};

}  // namespace

TEST_CASE("least_connections: the server with the fewest requests for its weight is next") {
    Fewest fewest({1, 1, 4});
    fewest.world.begin_requests(0, 2);
    fewest.world.begin_requests(1, 3);
    fewest.world.begin_requests(2, 7);
    CHECK(fewest.choose() == 2);  // 7 of 4 are fewer than 2 of 1
    fewest.world.begin_requests(2, 2);
    CHECK(fewest.choose() == 0);
    fewest.world.begin_requests(0, 1);
    CHECK(fewest.choose() == 2);
}

TEST_CASE("least_connections: an idle upstream gets requests by weight") {
    Fewest fewest({2, 1, 1});
    CHECK(count_choices(3, 400, [&] { return fewest.choose(); }) ==
          std::vector<int>{200, 100, 100});
    Fewest many(std::vector<int>(20, 1));
    CHECK(count_choices(20, 2'000, [&] { return many.choose(); }) == std::vector<int>(20, 100));
}

TEST_CASE("least_connections: servers with equally few requests take turns, others get none") {
    Fewest fewest({1, 1, 1});
    fewest.world.begin_requests(1, 1);
    CHECK(count_choices(3, 100, [&] { return fewest.choose(); }) == std::vector<int>{50, 0, 50});
}

TEST_CASE("least_connections: requests in flight are in proportion to the weights") {
    CHECK(Fewest({4, 2, 1, 1}).load(80, 10'000) == std::vector<int>{40, 20, 10, 10});
    for (std::uint64_t seed = 1; seed < 10; ++seed) {
        const auto active = Fewest(std::vector<int>(32, 1), seed).load(320, 20'000);
        CHECK(*std::max_element(active.begin(), active.end()) <= 13);
        CHECK(*std::min_element(active.begin(), active.end()) >= 6);
    }
}

TEST_CASE("least_connections: of many servers, a slow one is not given what others could take") {
    Fewest fewest(std::vector<int>(32, 1));
    fewest.world.begin_requests(3, 1'000);
    const auto counts = count_choices(32, 32'000, [&] { return fewest.choose(); });
    // Its turn comes, but the other of the two has fewer.
    CHECK(counts[3] == 0);
}

TEST_CASE("least_connections: a server in slow start gets a share of its weight") {
    Fewest fewest({1, 1});
    fewest.world.check(0, false);
    fewest.world.check(0, true, 2);
    CHECK(fewest.load(110, 10'000) == std::vector<int>{10, 100});
}

TEST_CASE(
    "least_connections: a server that just failed the request is not chosen, nor one that is out") {
    for (const std::size_t count : {3, 20}) {
        Fewest fewest(std::vector<int>(count, 1));
        for (std::size_t i = 2; i < count; ++i) fewest.world.check(i, false);
        fewest.world.begin_requests(1, 5);
        for (int i = 0; i < 50; ++i) {
            CHECK(fewest.choose() == 0);
            CHECK(fewest.choose(&fewest.world.at(0)) == 1);
        }
        fewest.world.fail(1, kBegin, 1);
        for (int i = 0; i < 50; ++i) CHECK(fewest.choose(&fewest.world.at(0)) == 1);
        fewest.world.check(1, false);
        CHECK(fewest.choose(&fewest.world.at(0)) == 0);
        fewest.world.check(0, false);
        CHECK_FALSE(fewest.choose());
    }
}

TEST_CASE("least_connections: others are tried before a server that could not be connected to") {
    for (const std::size_t count : {2, 20}) {
        World world(std::vector<int>(count, 1), HealthSettings{});
        LeastConnections choice(1);
        choice.reset(world.list);
        for (std::size_t i = 1; i < count; ++i) world.begin_requests(i, 3);
        world.fail(0, kBegin, 1, ServerFailure::connect);
        for (int i = 0; i < 50; ++i) CHECK(choice.choose(kBegin) != 0);
        CHECK(choice.choose(kBegin + 1s).has_value());
    }
}

TEST_CASE("least_connections: where none is usable the ejected are") {
    Fewest fewest({1, 1, 1, 1});
    fewest.world.fail(0, kBegin, 1);
    fewest.world.fail(1, kBegin, 1);
    fewest.world.check(2, false);
    fewest.world.check(3, false);
    fewest.world.begin_requests(0, 1);
    CHECK(fewest.choose() == 1);
    fewest.world.begin_requests(1, 2);
    CHECK(fewest.choose() == 0);
}

}  // namespace tidegate::balance::least_connections_test

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "unit/balance_world.hpp"

namespace tidegate::balance::round_robin_test {
namespace {

constexpr int kChoices = 100'000;

struct Robin {
    explicit Robin(const std::vector<int>& weights, std::uint64_t seed = 0,
                   std::chrono::nanoseconds slow_start = 0s)
        : world(weights, {.failures = 1}), choice(seed, slow_start) {
        choice.reset(world.list);
    }

    Chosen choose(const ServerState* other_than = nullptr) {
        return choice.choose(now, other_than);
    }
    std::vector<int> count(int choices = kChoices) {
        return count_choices(world.list.size(), choices, [&] { return choose(); });
    }
    // One letter a choice; `-` for none.
    std::string sequence(int choices) {
        std::string letters;
        for (int i = 0; i < choices; ++i) {
            const Chosen chosen = choose();
            letters += chosen ? static_cast<char>('A' + *chosen) : '-';
        }
        return letters;
    }

    World world;
    RoundRobin choice;
    SteadyTime now = kBegin;
};

std::vector<double> as_doubles(const std::vector<int>& weights) {
    return {weights.begin(), weights.end()};
}

std::string shown(const std::vector<int>& weights) {
    std::string text;
    for (const int weight : weights) text += std::to_string(weight) + ' ';
    return text;
}

std::size_t longest_run(const std::string& letters, char letter) {
    std::size_t longest = 0;
    std::size_t run = 0;
    for (const char each : letters) {
        run = each == letter ? run + 1 : 0;
        longest = std::max(longest, run);
    }
    return longest;
}

const std::vector<std::vector<int>>& weight_sets() {
    static const std::vector<std::vector<int>> sets{
        {1, 1},       {1, 1, 1},           {2, 1, 1},     {5, 1, 1},      {3, 2},
        {1'000, 10},  {7, 11, 13, 17, 19}, {1, 10, 100},  {1'000, 1'000}, {6, 3, 3, 2, 2, 1},
        {100, 99, 1}, {4, 4, 4, 1},        {997, 991, 83}};
    return sets;
}

}  // namespace

TEST_CASE("round_robin: each server gets its weight's part of 100,000 choices") {
    for (const auto& weights : weight_sets()) {
        Robin robin(weights, 3);
        CAPTURE(shown(weights));
        CHECK(are_as(robin.count(), as_doubles(weights)));
    }
    CHECK(are_as(Robin(std::vector<int>(64, 1)).count(), std::vector<double>(64, 1)));
}

TEST_CASE("round_robin: with one server down, the others keep their proportions") {
    for (const auto& weights : weight_sets()) {
        Robin robin(weights);
        robin.count(1'000);
        robin.world.check(0, false);
        robin.count(1);  // the worker's last from before
        std::vector<double> left = as_doubles(weights);
        left[0] = 0;
        CAPTURE(shown(weights));
        CHECK(are_as(robin.count(), left));
    }
}

TEST_CASE("round_robin: a server in slow start gets its share of its weight") {
    for (const auto& weights : {std::vector<int>{1, 1}, {5, 1, 1}, {7, 11, 13, 17, 19}}) {
        Robin robin(weights, 5, 10s);
        robin.world.check(1, false);
        robin.count(1'000);
        robin.world.check(1, true, 2);
        for (const auto& [after, share] : {std::pair{0s, 0.1}, {5s, 0.55}, {9s, 0.91}}) {
            robin.now = kBegin + after;
            std::vector<double> due = as_doubles(weights);
            due[1] *= share;
            CAPTURE(shown(weights));
            CAPTURE(after.count());
            CHECK(are_as(robin.count(), due));
        }
    }
}

TEST_CASE("round_robin: where all are in slow start, only their weights count") {
    Robin robin({3, 1, 2}, 0, 10s);
    for (std::size_t i = 0; i < 3; ++i) {
        robin.world.check(i, false);
        robin.world.check(i, true, 2);
    }
    CHECK(are_as(robin.count(), {3, 1, 2}));
}

TEST_CASE("round_robin: turns are spread as evenly as they can be") {
    CHECK(Robin({1, 1, 1}).sequence(9) == "ABCABCABC");
    CHECK(Robin({2, 1, 1}).sequence(12) == "ABACABACABAC");
    CHECK(Robin({1, 1, 2}).sequence(12) == "CACBCACBCACB");
    CHECK(Robin({3, 1}).sequence(8) == "ABAAABAA");
    for (const auto& weights : weight_sets()) {
        const std::string letters = Robin(weights).sequence(20'000);
        int sum = 0;
        for (const int weight : weights) sum += weight;
        for (std::size_t i = 0; i < weights.size(); ++i) {
            // Between two turns of others there must be so many of the server's: one more at most.
            const int others = sum - weights[i];
            const auto needed = static_cast<std::size_t>((weights[i] + others - 1) / others);
            CAPTURE(shown(weights));
            CAPTURE(i);
            CHECK(longest_run(letters, static_cast<char>('A' + i)) <= needed + 1);
        }
    }
}

TEST_CASE("round_robin: turns are as evenly spread after servers went and came") {
    Robin robin({9, 1, 1, 1});
    for (int i = 0; i < 50; ++i) {
        robin.world.check(1, false, 3);
        robin.sequence(20);
        robin.world.check(1, true, 3);
        robin.sequence(20 + i % 7);
        CHECK(longest_run(robin.sequence(70), 'A') == 3);
    }
}

TEST_CASE("round_robin: workers begin with different servers, in proportion to the weights") {
    for (const auto& weights : {std::vector<int>{1, 1, 1, 1}, {2, 1, 1}, {3, 1}, {5, 2, 1}}) {
        std::vector<int> first(weights.size());
        int sum = 0;
        for (const int weight : weights) sum += weight;
        for (int seed = 0; seed < sum; ++seed) {
            ++first[*Robin(weights, static_cast<std::uint64_t>(seed)).choose()];
        }
        CHECK(first == weights);
    }
}

TEST_CASE("round_robin: a server that is down is not chosen, and is again when it is back") {
    Robin robin({1, 1, 1, 1});
    robin.world.check(2, false);
    CHECK(robin.sequence(6).find('C') == std::string::npos);
    robin.world.check(2, true, 2);
    // Without turns of the time that it was away.
    const std::string back = robin.sequence(100);
    CHECK(std::count(back.begin(), back.end(), 'C') >= 24);
    CHECK(std::count(back.begin(), back.end(), 'C') <= 26);
    CHECK(longest_run(back, 'C') == 1);
}

TEST_CASE("round_robin: every server that returns is noticed while others serve") {
    Robin robin(std::vector<int>(64, 1));
    for (std::size_t i = 1; i < 64; ++i) robin.world.check(i, false);
    CHECK(robin.count(1'000)[0] == 1'000);
    for (std::size_t i = 1; i < 64; ++i) robin.world.check(i, true, 2);
    robin.count(32);  // two are looked at each time
    CHECK(robin.count(64) == std::vector<int>(64, 1));
}

TEST_CASE("round_robin: an ejection ends by time, without a call") {
    Robin robin({1, 1, 1});
    robin.world.fail(1, kBegin, 1);
    CHECK(robin.count(100)[1] == 0);
    robin.now = kBegin + 10s - 1ns;
    CHECK(robin.count(100)[1] == 0);
    robin.now = kBegin + 10s;
    CHECK(robin.count(102)[1] >= 33);
}

TEST_CASE("round_robin: others are tried before a server that could not be connected to") {
    World world({2, 1}, HealthSettings{});
    RoundRobin choice(0);
    choice.reset(world.list);
    world.fail(0, kBegin, 1, ServerFailure::connect);
    for (int i = 0; i < 10; ++i) CHECK(choice.choose(kBegin) == 1);
    CHECK(choice.choose(kBegin, &world.at(1)) == 0);
    world.fail(1, kBegin, 1, ServerFailure::connect);
    // All are avoided: then all are taken, by weight.
    CHECK(count_choices(2, 300, [&] { return choice.choose(kBegin); }) ==
          std::vector<int>{200, 100});
    world.health.note_success(world.at(0));
    for (int i = 0; i < 10; ++i) CHECK(choice.choose(kBegin) == 0);
    CHECK(are_as(count_choices(2, 3'000, [&] { return choice.choose(kBegin + 1s); }), {2, 1}));
}

TEST_CASE(
    "round_robin: a server that just failed the request is not chosen unless it is the only one") {
    Robin robin({1, 1, 1});
    for (std::size_t i = 0; i < 3; ++i) {
        for (int n = 0; n < 10; ++n) CHECK(robin.choose(&robin.world.at(i)) != i);
    }
    CHECK(are_as(count_choices(3, 10'000, [&] { return robin.choose(&robin.world.at(1)); }),
                 {1, 0, 1}));
    robin.world.fail(0, kBegin, 1);
    robin.world.check(1, false);
    // The ejected one rather than it.
    for (int n = 0; n < 10; ++n) CHECK(robin.choose(&robin.world.at(2)) == 0);
    robin.world.check(0, false);
    CHECK(robin.choose(&robin.world.at(2)) == 2);
    Robin lone({1});
    CHECK(lone.choose(&lone.world.at(0)) == 0);
}

TEST_CASE("round_robin: of the servers that a request has tried none is chosen again") {
    Robin robin({1, 1, 1, 1});
    robin.world.fail(3, kBegin, 1);  // ejected
    Tried tried;
    std::set<std::size_t> chosen;
    for (int i = 0; i < 4; ++i) {
        const Chosen next = robin.choice.choose(kBegin, tried);
        REQUIRE(next);
        CHECK((*next == 3) == (i == 3));
        CHECK(chosen.insert(*next).second);
        tried.add(robin.world.at(*next));
    }
    CHECK(chosen.size() == 4);
    const Chosen again = robin.choice.choose(kBegin, tried);
    REQUIRE(again);
    CHECK(tried.has(robin.world.at(*again)));
}

TEST_CASE("round_robin: leaving a server out for one request costs it no turn") {
    Robin robin({1, 1, 1});
    std::vector<int> counts(3);
    for (int i = 0; i < 3'000; ++i) {
        ++counts[*robin.choose(i % 10 == 0 ? &robin.world.at(0) : nullptr)];
    }
    CHECK(are_as(counts, {1, 1, 1}));
}

TEST_CASE("round_robin: equal servers take turns in one order, whatever interrupts it") {
    Robin robin({2, 2, 2, 2}, 0, 10s);
    CHECK(robin.sequence(18) == "ABCDABCDABCDABCDAB");
    robin.choice.reset(robin.world.list);
    CHECK(robin.sequence(12) == "CDABCDABCDAB");
    CHECK(robin.choose(&robin.world.at(2)) == 3);
    CHECK(robin.sequence(13) == "CABCDABCDABCD");  // it is due
    robin.world.fail(1, kBegin, 1);
    CHECK(robin.sequence(6) == "ACDACD");
    robin.now = kBegin + 30s;
    CHECK(longest_run(robin.sequence(40), 'B') == 1);
    CHECK(robin.count(40) == std::vector<int>(4, 10));
    // It goes and comes while no request does.
    robin.world.check(1, false, 1, robin.now);
    robin.world.check(1, true, 2, robin.now);
    CHECK(are_as(robin.count(), {1, 0.1, 1, 1}));
    robin.now += 10s;
    CHECK(are_as(robin.count(), {1, 1, 1, 1}));
}

TEST_CASE("round_robin: where none is usable the ejected are, and no unhealthy one ever") {
    Robin robin({2, 1, 1, 1});
    World& world = robin.world;
    world.fail(0, kBegin, 1);
    world.fail(1, kBegin, 1);
    world.check(2, false);
    world.check(3, false);
    CHECK(count_choices(4, 300, [&] { return robin.choose(); }) ==
          std::vector<int>{200, 100, 0, 0});
    world.check(0, false);
    CHECK(robin.count(10)[1] == 10);
    world.check(1, false);
    CHECK_FALSE(robin.choose());
    CHECK_FALSE(robin.choose(&world.at(0)));
    world.check(3, true, 2);
    CHECK(robin.choose() == 3);
}

TEST_CASE("round_robin: without servers, or with those that drain alone, there is none") {
    RoundRobin choice(7);
    CHECK_FALSE(choice.choose(kBegin));
    choice.reset({});
    CHECK_FALSE(choice.choose(kBegin));
    Robin robin({1, 1});
    robin.world.health.use({}, kBegin);
    CHECK_FALSE(robin.choose());
}

TEST_CASE("round_robin: a new list keeps the turns of the servers that stay") {
    Robin robin({3, 1}, 3);
    Robin changed({3, 1}, 3);
    for (int i = 0; i < 400; ++i) {
        changed.choice.reset(changed.world.list);  // the same again changes nothing
        CHECK(changed.choose() == robin.choose());
    }
    changed.world.servers.push_back(std::make_shared<ServerState>(5, 2));
    changed.world.list.push_back(changed.world.servers.back().get());
    changed.choice.reset(changed.world.list);
    CHECK(are_as(changed.count(60'000), {3, 1, 2}));
    changed.world.list.erase(changed.world.list.begin());
    changed.choice.reset(changed.world.list);
    CHECK(are_as(changed.count(60'000), {1, 2}));
}

TEST_CASE("round_robin: a weight that changes counts from the next turn on") {
    Robin robin({1, 1, 1});
    robin.count(100);
    robin.world.at(1).set_weight(8);
    robin.count(10);
    CHECK(are_as(robin.count(), {1, 8, 1}));
}

}  // namespace tidegate::balance::round_robin_test

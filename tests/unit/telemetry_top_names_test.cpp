#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/top_names.hpp"

namespace tidegate::telemetry {
namespace {

using namespace std::chrono_literals;
using Time = TopNames::Time;

constexpr std::size_t kAll = 100'000;

// A moment `after` the beginning of some generation.
Time at(std::chrono::milliseconds after) {
    return Time(60s * 1'000) + after;
}

TopList list_of(TopNames& names, Time now, std::size_t length = kAll) {
    return merge(names.counted(now), length);
}

std::uint64_t count_of(const TopList& list, const std::string& name) {
    for (const FrequentName& one : list.names) {
        if (one.name == name) return one.at_least;
    }
    return 0;
}

TEST_CASE("top_names: counts of this minute and of the one before are shown, and no older ones") {
    TopNames names(64, 1);
    names.add("a", at(0s));
    names.add("a", at(59'999ms));
    names.add("a", at(60s));
    CHECK(count_of(list_of(names, at(60s)), "a") == 3);
    CHECK(count_of(list_of(names, at(119'999ms)), "a") == 3);
    CHECK(count_of(list_of(names, at(120s)), "a") == 1);
    names.add("b", at(121s));
    const TopList list = list_of(names, at(179s));
    CHECK(list.total == 2);
    CHECK(count_of(list, "a") == 1);
    CHECK(count_of(list, "b") == 1);
    CHECK(list_of(names, at(240s)).names.empty());
}

TEST_CASE("top_names: after a minute without requests nothing old comes back") {
    TopNames names(64, 1);
    names.add("a", at(0s));
    names.add("b", at(125s));
    const TopList list = list_of(names, at(126s));
    CHECK(list.total == 1);
    CHECK(count_of(list, "a") == 0);
}

TEST_CASE("top_names: the reach is one to two minutes, or the age of the process") {
    CHECK(TopNames::reach(at(0s), at(-1h)) == 60s);
    CHECK(TopNames::reach(at(59'900ms), at(-1h)) == 119s);
    CHECK(TopNames::reach(at(30s), at(20s)) == 10s);
}

TEST_CASE("top_names: merged counts of several threads hold their stated error") {
    std::mt19937 random(7);
    std::map<std::string, std::uint64_t> exact;
    std::vector<TopNames> threads;
    for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back(64, i);
    for (std::uint32_t i = 0; i < 40'000; ++i) {
        // One client in ten requests comes over all threads, one over a single thread.
        const std::uint32_t number = random() % 5'000;
        const std::string name = i % 10 == 0   ? "spread"
                                 : i % 10 == 1 ? "single"
                                               : std::to_string(number);
        ++exact[name];
        threads[name == "single" ? 0 : random() % 4].add(name, at(2ms * i));
    }
    std::vector<CountedNames> parts;
    std::uint64_t bound = 0;
    for (TopNames& one : threads) {
        for (CountedNames& part : one.counted(at(80s))) {
            bound += part.total / part.names_max;
            parts.push_back(std::move(part));
        }
    }
    const TopList list = merge(parts, kAll);
    CHECK(list.total == 40'000);
    CHECK(list.error_max <= bound);
    for (const FrequentName& one : list.names) {
        const std::uint64_t truth = exact.at(one.name);
        CHECK(one.at_least <= truth);
        CHECK(one.at_least + one.error >= truth);
        CHECK(one.error <= list.error_max);
    }
    for (const auto& [name, count] : exact) {
        if (count > list.error_max) CHECK_MESSAGE(count_of(list, name) > 0, name);
    }
    const TopList cut = merge(parts, 2);
    REQUIRE(cut.names.size() == 2);
    CHECK(count_of(cut, "spread") > 3'000);
    CHECK(count_of(cut, "single") > 3'000);
}

}  // namespace
}  // namespace tidegate::telemetry

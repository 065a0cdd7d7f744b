#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/top_and_denials.hpp"

namespace tidegate::telemetry::top_names_test {

namespace {

using namespace std::chrono_literals;
using Time = TopNames::Time;

constexpr std::uint64_t kSecret = 0x5eed;

using Exact = std::map<std::string, std::uint64_t>;

// Holds the counters to what they promise about a stream whose names came as often as `exact` says.
void check_promises(const SpaceSaving& counters, const Exact& exact) {
    std::uint64_t total = 0;
    for (const auto& [name, count] : exact) total += count;
    CHECK(counters.total() == total);
    const std::uint64_t bound = total / counters.names_max();
    CHECK(counters.missed_max() <= bound);
    Exact kept;
    std::uint64_t sum = 0;
    counters.for_each(0, counters.size(), [&](const SpaceSaving::Name& one) {
        const auto found = exact.find(std::string(one.name));
        REQUIRE(found != exact.end());
        CHECK(kept.emplace(one.name, one.count).second);
        CHECK(one.count >= found->second);
        CHECK(one.count - one.error <= found->second);
        CHECK(one.error <= bound);
        sum += one.count;
    });
    CHECK(kept.size() == std::min(counters.names_max(), exact.size()));
    CHECK(sum == total);
    for (const auto& [name, count] : exact) {
        if (count > counters.missed_max()) CHECK_MESSAGE(kept.count(name) == 1, name);
    }
}

class Stream {
  public:
    explicit Stream(std::size_t names_max) : counters(names_max, kSecret) {}

    void add(const std::string& name) {
        counters.add(name);
        ++exact[name];
    }
    void check() const { check_promises(counters, exact); }

    SpaceSaving counters;
    Exact exact;
};

std::string numbered(std::uint64_t number) {
    return "ip:10." + std::to_string(number);
}

TEST_CASE("space_saving: few names are counted exactly") {
    Stream stream(64);
    for (int i = 0; i < 64; ++i) {
        for (int n = 0; n <= i; ++n) stream.add(numbered(static_cast<std::uint64_t>(i)));
    }
    stream.check();
    stream.counters.for_each(0, stream.counters.size(), [&](const SpaceSaving::Name& one) {
        CHECK(one.error == 0);
        CHECK(one.count == stream.exact.at(std::string(one.name)));
    });
    CHECK(stream.counters.missed_max() == 1);
}

TEST_CASE("space_saving: the stated error holds for random streams, even and skewed") {
    for (std::uint32_t seed = 1; seed <= 12; ++seed) {
        std::mt19937 random(seed);
        Stream stream(seed % 3 == 0 ? 1 : 8 * seed);
        const double skew = 0.5 + seed % 4;
        std::uniform_real_distribution<double> even(0.0, 1.0);
        for (int i = 0; i < 20'000; ++i) {
            stream.add(numbered(static_cast<std::uint64_t>(1.0 / (1e-4 + skew * even(random)))));
            if (i % 4'999 == 0) stream.check();
        }
        stream.check();
    }
}

TEST_CASE("space_saving: the stated error holds for streams made to defeat it") {
    Stream flood(64);
    for (std::uint64_t i = 0; i < 10'000; ++i) {
        // Every name is new, but for one in fifty.
        flood.add(i % 50 == 0 ? "user:often" : numbered(i));
    }
    flood.check();
    bool is_kept = false;
    flood.counters.for_each(0, flood.counters.size(), [&](const SpaceSaving::Name& one) {
        is_kept = is_kept || (one.name == "user:often" && one.count >= 200);
    });
    CHECK(is_kept);

    Stream round(64);  // one name more than there are counters, in turn
    for (std::uint64_t i = 0; i < 65 * 200; ++i) round.add(numbered(i % 65));
    round.check();

    Stream waves(32);  // each wave displaces the one before
    for (std::uint64_t wave = 0; wave < 40; ++wave) {
        for (std::uint64_t i = 0; i < 32 * (wave + 1); ++i) waves.add(numbered(wave * 32 + i % 32));
    }
    waves.check();
}

TEST_CASE("space_saving: clear() begins anew") {
    Stream stream(16);
    for (std::uint64_t i = 0; i < 1'000; ++i) stream.add(numbered(i * i % 97));
    stream.counters.clear();
    stream.exact.clear();
    CHECK(stream.counters.size() == 0);
    CHECK(stream.counters.missed_max() == 0);
    for (std::uint64_t i = 0; i < 1'000; ++i) stream.add(numbered(i * i % 89));
    stream.check();
}

TEST_CASE("space_saving: names of any bytes are counted, long ones by their first bytes") {
    SpaceSaving counters(16, kSecret);
    const std::string nul("a\0b", 3);
    const std::string longest(SpaceSaving::kNameBytesMax, '\xff');
    for (const std::string& name :
         {std::string(), nul, std::string("a"), longest, longest + "1", longest + "2"}) {
        counters.add(name);
    }
    Exact found;
    counters.for_each(0, counters.size(),
                      [&](const SpaceSaving::Name& one) { found.emplace(one.name, one.count); });
    CHECK(found == Exact{{"", 1}, {nul, 1}, {"a", 1}, {longest, 3}});
}

constexpr std::size_t kAll = 100'000;

// A moment `after` the beginning of some generation.
Time at(std::chrono::milliseconds after) {
    return Time(60s * 1'000) + after;
}

NamesCopy copy_of(TopNames& names, Time now) {
    NamesCopy copy;
    while (!names.copy_piece(copy, now)) {
    }
    return copy;
}

TopList list_of(TopNames& names, Time now, std::size_t length = kAll) {
    return merge(copy_of(names, now).generations, length);
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
        for (const CountedNames& part : copy_of(one, at(80s)).generations) {
            bound += part.total / part.names_max;
            parts.push_back(part);
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

TEST_CASE("top_names: a piece of a copy has at most 256 names of both minutes together") {
    TopNames names(1'024, 1);
    for (int i = 0; i < 1'000; ++i) names.add("old" + std::to_string(i), at(0s));
    for (int i = 0; i < 100; ++i) names.add("new" + std::to_string(i), at(60s));
    NamesCopy copy;
    std::size_t before = 0;
    int pieces = 0;
    for (bool is_whole = false; !is_whole; ++pieces) {
        is_whole = names.copy_piece(copy, at(61s));
        const std::size_t now = copy.generations[0].names.size() + copy.generations[1].names.size();
        CHECK(now - before <= TopNames::kPieceNames);
        before = now;
    }
    CHECK(before == 1'100);
    CHECK(pieces == 5);
    CHECK(copy.generations[0].total == 1'000);
    CHECK(copy.generations[1].total == 100);
}

TEST_CASE("top_names: a copy whose minute ends between two pieces begins anew") {
    TopNames names(1'024, 1);
    for (int i = 0; i < 600; ++i) names.add("old" + std::to_string(i), at(0s));
    NamesCopy copy;
    CHECK_FALSE(names.copy_piece(copy, at(59s)));
    names.add("later", at(60s));
    while (!names.copy_piece(copy, at(60s))) {
    }
    const TopList list = merge(copy.generations, kAll);
    CHECK(list.total == 601);
    CHECK(list.names.size() == 601);
    CHECK(count_of(list, "old0") == 1);
    CHECK(count_of(list, "later") == 1);
}

TEST_CASE("top_names: names that move while they are copied count once, within the stated error") {
    constexpr std::size_t kNames = 1'024;
    TopNames names(kNames, 1);
    std::map<std::string, std::uint64_t> before;
    std::mt19937 random(11);
    // Many names are new, so that counters change hands between the pieces.
    const auto add = [&](int count, std::map<std::string, std::uint64_t>& exact) {
        for (int i = 0; i < count; ++i) {
            const std::string name = i % 4 == 0 ? "often" + std::to_string(random() % 50)
                                                : std::to_string(random() % 3'000);
            ++exact[name];
            names.add(name, at(1s));
        }
    };
    add(20'000, before);
    NamesCopy copy;
    std::map<std::string, std::uint64_t> after = before;
    while (!names.copy_piece(copy, at(1s))) add(2'000, after);
    const TopList list = merge(copy.generations, kAll);
    std::set<std::string> listed;
    for (const FrequentName& one : list.names) {
        CHECK(listed.insert(one.name).second);
        CHECK(one.at_least <= after.at(one.name));
        CHECK(one.at_least + one.error >= before[one.name]);
        CHECK(one.error <= list.error_max);
    }
    for (const auto& [name, count] : before) {
        if (count > list.error_max) CHECK_MESSAGE(listed.count(name) == 1, name);
    }
    CHECK(listed.size() < copy.generations[1].names.size());  // some came twice
}

}  // namespace

}  // namespace tidegate::telemetry::top_names_test

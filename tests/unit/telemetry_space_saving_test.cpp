#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/space_saving.hpp"

namespace tidegate::telemetry::space_saving_test {
namespace {

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

}  // namespace
}  // namespace tidegate::telemetry::space_saving_test

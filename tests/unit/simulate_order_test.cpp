#include <algorithm>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/ip.hpp"
#include "simulate/log.hpp"

namespace tidegate::simulate::order_test {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kBegin = 1'800'000'000 * kSecond;

// An order, and what it has handed out: times from kBegin on, and names.
struct World {
    explicit World(std::size_t bytes_max = LogOrder::kBytesMax,
                   std::int64_t seconds = kOrderSeconds)
        : order(
              [this](std::span<const LoggedRequest> requests) {
                  for (const LoggedRequest& request : requests) {
                      out.emplace_back(request.time.count() - kBegin,
                                       std::string(request.text(LogText::client)));
                      last = request.number(LogNumber::usage_cost);
                      value = request.values.empty() ? "" : std::string(request.values.front());
                      address = request.address;
                  }
              },
              seconds, bytes_max) {}

    bool add(std::int64_t at, const std::string& name, bool is_whole = false) {
        LoggedRequest request;
        request.reset(1);
        request.time = Micros{kBegin + at};
        request.is_whole_second = is_whole;
        request.text(LogText::client) = name;
        request.values[0] = name;
        request.address = parse_ip("10.0.0." + std::to_string(name.size()));
        request.number(LogNumber::usage_cost) = static_cast<std::int64_t>(name.size());
        return order.add(request);
    }

    std::vector<std::pair<std::int64_t, std::string>> out;
    std::int64_t last = 0;
    std::string value;
    std::optional<IpAddress> address;
    LogOrder order;
};

TEST_CASE("log order: requests of a minute are sorted by their times") {
    World world;
    CHECK(world.add(5 * kSecond, "c"));
    CHECK(world.add(1 * kSecond, "a"));
    CHECK(world.add(2 * kSecond + 1, "b"));
    CHECK(world.add(5 * kSecond, "d"));
    world.order.finish();
    REQUIRE(world.out.size() == 4);
    CHECK(world.out[0].second == "a");
    CHECK(world.out[1].second == "b");
    CHECK(world.out[2].second == "c");
    CHECK(world.out[3].second == "d");
    CHECK(world.last == 1);
    CHECK(world.value == "d");
    REQUIRE(world.address);
    CHECK(world.address->to_string() == "10.0.0.1");
}

TEST_CASE("log order: what comes more than a minute late is refused") {
    World world;
    CHECK(world.add(100 * kSecond, "a"));
    CHECK(world.add(40 * kSecond, "b"));
    CHECK_FALSE(world.add(39 * kSecond, "c"));
    CHECK(world.add(101 * kSecond, "d"));
    CHECK_FALSE(world.add(40 * kSecond, "e"));
    world.order.finish();
    CHECK(world.out.size() == 3);
}

TEST_CASE("log order: a longer window sorts what comes later") {
    World world(LogOrder::kBytesMax, 600);
    CHECK(world.order.newest() == Micros{0});
    CHECK(world.add(1'000 * kSecond, "a"));
    CHECK(world.add(400 * kSecond, "b"));
    CHECK_FALSE(world.add(399 * kSecond, "c"));
    CHECK(world.add(1'001 * kSecond + 5, "d"));
    CHECK(world.order.newest() == Micros{kBegin + 1'001 * kSecond});
    world.order.finish();
    REQUIRE(world.out.size() == 3);
    CHECK(world.out[0].second == "b");
    CHECK(world.out[2].second == "d");
}

TEST_CASE("log order: a bounded window hands out early, and keeps what comes late") {
    World world(1'000, 3'600);
    for (int i = 0; i < 5'000; ++i) {
        CHECK(world.add((i % 7 == 0 ? i / 2 : i) * kSecond, "client"));
    }
    world.order.finish();
    CHECK(world.out.size() == 5'000);
}

TEST_CASE("log order: whole seconds are spread over their second in the order of their lines") {
    World world;
    world.add(0, "a", true);
    world.add(0, "b", true);
    world.add(0, "c", true);
    world.add(0, "d", true);
    world.add(kSecond, "e", true);
    world.order.finish();
    REQUIRE(world.out.size() == 5);
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(world.out[i].first == static_cast<std::int64_t>(i) * kSecond / 4);
    }
    CHECK(world.out[4].first == kSecond);
}

TEST_CASE("log order: requests that wait are bounded, and none is lost") {
    World world(100'000);
    for (int i = 0; i < 10'000; ++i) world.add(0, "client", true);
    world.order.finish();
    CHECK(world.out.size() == 10'000);
}

TEST_CASE("log order: random lines of a log come out as a stable sort has them") {
    std::mt19937 random(7);
    World world;
    std::vector<std::pair<std::int64_t, std::string>> expected;
    std::int64_t newest = -1'000 * kSecond;
    for (int i = 0; i < 20'000; ++i) {
        const std::int64_t at =
            i * kSecond / 50 - static_cast<std::int64_t>(random() % 70) * kSecond;
        const std::string name = std::to_string(i);
        if (at < 0) continue;
        const bool fits = at / kSecond >= newest / kSecond - kOrderSeconds;
        CHECK(world.add(at, name) == fits);
        newest = std::max(newest, at);
        if (fits) expected.emplace_back(at, name);
    }
    world.order.finish();
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    CHECK(world.out == expected);
}

}  // namespace
}  // namespace tidegate::simulate::order_test
